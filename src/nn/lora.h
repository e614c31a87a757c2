// The keys of low-rank adaptation: see nn/adapter.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/schema.h"

namespace ddpm::nn {

/// Which layers have an adapter, and how wide it is.
struct LoraConfig {
  int64_t rank = 0;  ///< 0: there are no adapters
  std::optional<double> alpha;
  std::vector<std::string> targets = {"attention"};

  /// alpha / rank; alpha is the rank where it is not set.
  [[nodiscard]] double scale() const;
  /// Whether adapters of both have the same rank and scale, in whatever layers.
  [[nodiscard]] bool is_like(const LoraConfig& other) const { return rank == other.rank && scale() == other.scale(); }
};

/// Declares lora_rank, lora_alpha and lora_targets.
void describe(config::Section& section, LoraConfig& c);

}  // namespace ddpm::nn
