// Which weights of a model folder are meant: those in unet/, or their averages in unet_ema/, which diffusers' training
// scripts save beside them.
#pragma once

#include <string>

#include "base/file_system.h"

namespace ddpm::denoise {

/// Whether `path` is a model folder, or one that holds averages alone.
bool holds_weights(const base::Path& path);

/// How a choice of weights was asked for, for messages.
struct WeightsAsked {
  std::string choice;    ///< raw, ema, or "" where nothing was said; anything else is refused
  std::string text;      ///< "--weights ema"
  std::string possible;  ///< "--weights raw or ema"
};

/// The folder with the weights that `asked` means: `path`, or the averages in it. Throws base::ConfigError where the
/// folder holds both and nothing was said, and for weights that it does not have. Not collective.
base::Path folder_of_weights(const base::Path& path, const WeightsAsked& asked);

}  // namespace ddpm::denoise
