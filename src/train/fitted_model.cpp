#include "train/fitted_model.h"

#include <optional>

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
void expect_turnable_tiles(const data::DataConfig& data, const layout::Tiling& tiling) {
  if (!data.quarter_turns) return;
  for (int64_t tile = 0; tile < tiling.count(); ++tile) {
    const std::vector<layout::Range> pixels = tiling.cut_pixels(tile);
    if (pixels.empty() || pixels.rbegin()[1].size() == pixels.back().size()) continue;
    throw base::ConfigError(
        "data.quarter_turns = true: parallel.spatial_size makes a tile of {} × {} pixels; wanted: tiles that are as "
        "high as wide",
        pixels.rbegin()[1].size(), pixels.back().size());
  }
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

FittedModel fitted_model(const Config& config, const data::Dataset& dataset) {
  const auto patch = denoise::Patch::of(dataset.image(), config.data.patch, config.model);
  FittedModel fitted = {.unet = denoise::fit_model(config.model, dataset, config.data.positions, patch),
                        .patch = patch};
  fitted.tiling = tiling_of(config.parallel.spatial_size, patch.window, fitted.unet);
  expect_cuts(config.parallel, fitted.unet);
  denoise::expect_turnable(config.data, dataset.info(), patch.window);
  expect_turnable_tiles(config.data, fitted.tiling);
  if (config.diffusion.class_dropout > 0.0) denoise::expect_room_for_null_class(fitted.unet, dataset);
  expect_conditions(config.diffusion.condition_dropout, dataset);
  return fitted;
}

namespace {

std::optional<data::ImageWindows> read_of(const FittedModel& fitted, const data::Dataset& dataset) {
  const denoise::Windows windows(fitted.patch, 0, base::Stream::patch, at::kCPU, {},
                                 {.pixels = fitted.tiling.cut_pixels(0)});
  return denoise::windows_to_read(windows, fitted.patch, dataset);
}

}  // namespace

bool reads_windows(const FittedModel& fitted, const data::Dataset& dataset) {
  return read_of(fitted, dataset).has_value();
}

int64_t bytes_read(const FittedModel& fitted, const data::Dataset& dataset) {
  const auto read = read_of(fitted, dataset);
  return static_cast<int64_t>(read ? read->block_bytes(dataset.fields()) : dataset.block_bytes());
}

}  // namespace ddpm::train
