// A model made of round numbers, for tests of plans.
#pragma once

#include "plan/candidates.h"

namespace ddpm::plan {

inline constexpr int64_t kBlock = layout::kShardBlock;

/// `units` units of `elements` parameters each; `images` images need 100 kB of activations each.
inline ModelSizes model_of(int64_t units, int64_t elements) {
  ModelSizes model;
  model.unit_elements.assign(static_cast<std::size_t>(units), elements);
  model.parameters = units * elements;
  model.held_parameters = model.parameters;
  model.image_elements = int64_t{3} * 32 * 32;
  model.image_bytes = int64_t{3} * 32 * 32;
  model.activations = {{.kept = 800'000, .all = 800'000}};
  model.activation_images = 8;
  model.forward_flops = 3e9;
  model.backward_flops = 6e9;
  model.attention_flops = 1e9;
  return model;
}

/// A machine with round numbers, so that results can be computed in the head.
inline Machine round_machine() {
  return {.name = "round",
          .tflops = 1.0,
          .tflops_half = 2.0,
          .memory_gb_per_s = 100.0,
          .host_gb_per_s = 10.0,
          .host_link_gb_per_s = 5.0,
          .node_latency_us = 1.0,
          .node_gb_per_s = 10.0,
          .network_latency_us = 10.0,
          .network_gb_per_s = 1.0};
}

}  // namespace ddpm::plan
