// What a configuration and its training set make of the model, for training and for what only plans it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/dataset.h"
#include "denoise/patch.h"
#include "layout/tiling.h"
#include "nn/config.h"
#include "train/config.h"

namespace ddpm::train {

struct FittedModel {
  nn::UNet2DConfig unet;       ///< sample_size is that of the windows
  denoise::Patch patch;        ///< what it is shown of the images
  layout::Tiling tiling = {};  ///< how ranks cut that into tiles (parallel.spatial_size)
};

/// Whether windows or tiles are read in place of whole images.
bool reads_windows(const FittedModel& fitted, const data::Dataset& dataset);
/// Bytes that are read and held for one image that is cut into tiles: those of its window, or of its largest tile,
/// where these are read. The function needs the set no more.
std::function<int64_t(const layout::Tiling&)> bytes_read(const denoise::Patch& patch, const data::Dataset& dataset);

/// How parallel.spatial_size cuts images like `image`, of which `model` is trained; one number cuts the rows. Throws
/// ConfigError where it cannot.
layout::Tiling tiling_of(const std::vector<int64_t>& spatial_size, const data::ImageFormat& image,
                         const nn::UNet2DConfig& model);

/// Throws ConfigError where training by `config` cannot have images of `model` in these tiles, which the model by
/// itself allows. `regression`: the one that diffusion.mean_model names; null where there is none, or where it is not
/// known yet.
void expect_tiling(const Config& config, const nn::UNet2DConfig& model, const nn::UNet2DConfig* regression,
                   const layout::Tiling& tiling);

/// Returns the model of `config` as it is trained on `dataset`, its training set. Throws ConfigError for a patch,
/// for turns that the images do not have and for tiles that they cannot be cut into, and DatasetError for a set that
/// does not fit the model.
FittedModel fitted_model(const Config& config, const data::Dataset& dataset);

}  // namespace ddpm::train
