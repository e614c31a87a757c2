#include "cli/sample_tiles.h"

#include <numeric>

#include "base/counted.h"
#include "base/error.h"
#include "cli/sides.h"
#include "comm/axis_communicator.h"
#include "comm/collectives.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::cli {
namespace {

constexpr const char* kOption = "--spatial-size";
constexpr int64_t kMostParts = 65536;

layout::Tiling tiling_of(const std::string& asked, const std::vector<int64_t>& sides, int64_t unit) {
  const std::vector<int64_t> parts =
      layout::Tiling::parts_of(sides_of(kOption, asked, kMostParts, "parts such as 2x2"), sides.size());
  const std::string why = layout::Tiling::refusal(sides, parts, unit, kOption + (" " + asked));
  if (!why.empty()) throw base::ConfigError("{}", why);
  return {sides, parts, unit};
}

/// What tiles are multiples of, so that all models that draw together can halve them.
int64_t unit_of(const denoise::LoadedModel& model, const denoise::LoadedModel* weak) {
  int64_t unit = nn::size_multiple(model.unet->config());
  if (model.mean) unit = std::lcm(unit, nn::size_multiple(model.mean->unet->config()));
  if (weak != nullptr) unit = std::lcm(unit, nn::size_multiple(weak->unet->config()));
  return unit;
}

}  // namespace

SampleTiles::SampleTiles(const std::optional<std::string>& asked, const denoise::LoadedModel& model,
                         const denoise::LoadedModel* weak, comm::Communicator& world, comm::Communicator& beside,
                         at::Device device) {
  layout::Tiling tiling;
  comm::agree(world, [&] {
    if (asked) tiling = tiling_of(*asked, model.image.sides(), unit_of(model, weak));
    if (world.size() % tiling.count() != 0) {
      throw base::ConfigError("{} {}: {} for {} tiles of each image; wanted: a multiple of that many ranks", kOption,
                              *asked, base::counted(world.size(), "rank"), tiling.count());
    }
    if (tiling.count() > 1 && weak != nullptr && weak->unet->image_shape() != model.unet->image_shape()) {
      throw base::ConfigError(
          "{} {}: the axes along which --guidance-model is periodic are not those of --model; wanted: equal ones",
          kOption, *asked);
    }
    mesh_ = layout::Mesh(
        {{layout::Axis::replicate, world.size() / tiling.count()}, {layout::Axis::spatial, tiling.count()}},
        world.size());
  });
  if (tiling.count() == 1) return;
  group_ = comm::axis_communicator(beside, mesh_, layout::Axis::spatial);
  tiles_ = train::ModelTiles(tiling, *model.unet, model.mean.get(), group_.get(), /*channels=*/nullptr,
                             parallel::queue_mode(/*overlap=*/true, device));
}

void expect_drawable_in_tiles(const std::string& asked, const diffusion::SchedulerConfig& scheduler) {
  if (!scheduler.thresholding) return;
  throw base::ConfigError(
      "{} {}: the model's scheduler has thresholding, which sorts the pixels of whole images; wanted: no such option",
      kOption, asked);
}

}  // namespace ddpm::cli
