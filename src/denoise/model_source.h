// Where a model comes from, as the configuration says: a config.json, or a model folder with weights.
#pragma once

#include <optional>
#include <string>

#include "config/schema.h"

namespace ddpm::denoise {

/// The keys of [model] that say where a model comes from; the others are nn::UNet2DConfig's.
struct ModelSource {
  std::optional<std::string> config;
  std::optional<std::string> pretrained;
  std::string pretrained_weights;  ///< raw, ema, ema:I; empty: see its documentation
  std::optional<std::string> lora_adapters = {};

  /// Whether files give keys of the configuration.
  [[nodiscard]] bool names_files() const { return config || pretrained || lora_adapters; }
};

void describe(config::Section& section, ModelSource& c);

}  // namespace ddpm::denoise
