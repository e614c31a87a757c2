#include "train/fitted_model.h"

#include <optional>
#include <string>

#include <fmt/ranges.h>

#include "base/error.h"
#include "denoise/model_fit.h"
#include "denoise/null_class.h"
#include "denoise/turns.h"
#include "denoise/windows.h"
#include "nn/unet2d.h"
#include "parallel/unit_flow.h"

namespace ddpm::train {

namespace {

/// What is left out now and then must be there.
void expect_conditions(double dropout, const data::Dataset& dataset) {
  if (dropout == 0.0) return;
  const data::DatasetInfo& info = dataset.info();
  for (const data::FieldRole role : {data::FieldRole::condition, data::FieldRole::parameters}) {
    if (info.find(role) < info.fields.size()) return;
  }
  throw base::ConfigError(
      "diffusion.condition_dropout = {}: {} has neither a condition nor parameters to leave out; wanted: no such key",
      dropout, dataset.path().string());
}

/// What is transposed must have room in the same tile.
std::string turns_refusal(const data::DataConfig& data, const layout::Tiling& tiling) {
  if (!data.quarter_turns) return "";
  for (int64_t tile = 0; tile < tiling.count(); ++tile) {
    const std::vector<layout::Range> pixels = tiling.cut_pixels(tile);
    if (pixels.empty() || pixels.rbegin()[1].size() == pixels.back().size()) continue;
    return fmt::format(
        "data.quarter_turns = true: parallel.spatial_size makes a tile of {} × {} pixels; wanted: tiles that are as "
        "high as wide",
        pixels.rbegin()[1].size(), pixels.back().size());
  }
  return "";
}

/// Grids of samples are drawn in the tiles of training.
std::string grids_refusal(const Config& config, const layout::Tiling& tiling) {
  if (config.sample.every_steps == 0 || !config.diffusion.scheduler.thresholding || tiling.count() == 1) return "";
  return fmt::format(
      "sample.every_steps = {}: diffusion.thresholding sorts the pixels of whole images, which parallel.spatial_size = "
      "[{}] cuts; wanted: 0, and ddpm sample",
      config.sample.every_steps, fmt::join(config.parallel.spatial_size, ", "));
}

/// Tiles are made for the model; the regression answers for the same.
std::string regression_refusal(const Config& config, const nn::UNet2DConfig& model, const nn::UNet2DConfig& regression,
                               const layout::Tiling& tiling) {
  const int64_t cut = nn::size_multiple(model);
  const int64_t wanted = nn::size_multiple(regression);
  if (tiling.count() == 1 || cut % wanted == 0) return "";
  return fmt::format(
      "diffusion.mean_model: {}: the regression halves images to tiles of multiples of {} pixels, but "
      "parallel.spatial_size cuts them for the model into multiples of {}; wanted: parallel.spatial_size = 1",
      config.diffusion.mean_model.value_or(""), wanted, cut);
}

/// Throws ConfigError for stages and parts that the model cannot be cut into.
void expect_cuts(const parallel::ParallelConfig& parallel, const nn::UNet2DConfig& model) {
  if (parallel.pipeline_size == 1 && parallel.tensor_size == 1 && parallel.stage_units.empty()) return;
  nn::UNet2D unet(model);
  static_cast<void>(
      parallel::cut_model(unet, parallel.pipeline_size, parallel.stage_units, /*part=*/0, parallel.tensor_size));
}

}  // namespace

layout::Tiling tiling_of(const std::vector<int64_t>& spatial_size, const data::ImageFormat& image,
                         const nn::UNet2DConfig& model) {
  const std::vector<int64_t> sides = image.sides();
  return {sides, layout::Tiling::parts_of(spatial_size, sides.size()), nn::size_multiple(model)};
}

void expect_tiling(const Config& config, const nn::UNet2DConfig& model, const nn::UNet2DConfig* regression,
                   const layout::Tiling& tiling) {
  for (const std::string& refusal :
       {turns_refusal(config.data, tiling), grids_refusal(config, tiling),
        regression != nullptr ? regression_refusal(config, model, *regression, tiling) : std::string()}) {
    if (!refusal.empty()) throw base::ConfigError("{}", refusal);
  }
}

FittedModel fitted_model(const Config& config, const data::Dataset& dataset) {
  const auto patch = denoise::Patch::of(dataset.image(), config.data.patch, config.model);
  FittedModel fitted = {.unet = denoise::fit_model(config.model, dataset, config.data.positions, patch),
                        .patch = patch};
  fitted.tiling = tiling_of(config.parallel.spatial_size, patch.window, fitted.unet);
  expect_cuts(config.parallel, fitted.unet);
  denoise::expect_turnable(config.data, dataset.info(), patch.window);
  expect_tiling(config, fitted.unet, /*regression=*/nullptr, fitted.tiling);
  if (config.diffusion.class_dropout > 0.0) denoise::expect_room_for_null_class(fitted.unet, dataset);
  expect_conditions(config.diffusion.condition_dropout, dataset);
  return fitted;
}

namespace {

std::optional<data::ImageWindows> read_of(const denoise::Patch& patch, const layout::Tiling& tiling,
                                          bool has_checksums) {
  const denoise::Windows windows(patch, 0, base::Stream::patch, at::kCPU, {}, {.pixels = tiling.cut_pixels(0)});
  return denoise::windows_to_read(windows, patch, has_checksums);
}

}  // namespace

bool reads_windows(const FittedModel& fitted, const data::Dataset& dataset) {
  return read_of(fitted.patch, fitted.tiling, dataset.has_checksums()).has_value();
}

std::function<int64_t(const layout::Tiling&)> bytes_read(const denoise::Patch& patch, const data::Dataset& dataset) {
  return [patch, fields = dataset.fields(), whole = dataset.block_bytes(),
          has_checksums = dataset.has_checksums()](const layout::Tiling& tiling) {
    const auto read = read_of(patch, tiling, has_checksums);
    return static_cast<int64_t>(read ? read->block_bytes(fields) : whole);
  };
}

}  // namespace ddpm::train
