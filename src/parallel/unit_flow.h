// The model cut into stages of neighbouring units (parallel.pipeline_size), and what travels between the ranks that
// hold them.
//
// Between two units flows an nn::UnitState. A value of it goes from the last stage before that has it: the activation
// and the embeddings from stage to stage, a skip from the stage that makes it straight to the one that takes it.
// Gradients go the same ways back. Who makes and takes what, and its shape, follow from a forward pass on the meta
// device, so that nothing but values travels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layout/range.h"
#include "nn/unet2d.h"
#include "parallel/meta_forward.h"

namespace ddpm::parallel {

/// The units of each stage: `stage_units` of them, where that says anything, and otherwise those whose operations,
/// forward and backward, are nearest to equal parts. Throws ConfigError for more stages than units, and where
/// `stage_units` are not those of so many stages of this model.
std::vector<layout::Range> stages_of(const nn::UNet2D& unet, int64_t stages,
                                     const std::vector<int64_t>& stage_units = {});

/// Has `unet` hold part `part` of `parts` of its channels, and returns stages_of() it: by the operations of all
/// channels.
std::vector<layout::Range> cut_model(nn::UNet2D& unet, int64_t stages, const std::vector<int64_t>& stage_units,
                                     int64_t part, int64_t parts);

/// How many tensors a UnitState has, some of which may be undefined.
std::size_t value_count(const nn::UnitState& state);
/// A tensor of a UnitState: 0 to 3 are x, temb, embedding and picture, and 4 + i is skip i.
at::Tensor& state_value(nn::UnitState& state, std::size_t index);

/// A tensor that a stage gets from another, or gives to it.
struct StageValue {
  int64_t stage = 0;                  ///< the other one
  std::vector<std::size_t> places{};  ///< in the state of the stage that gets it; of the one that gives it, one place
  std::vector<int64_t> sizes{};
  at::ScalarType dtype = at::kFloat;
  bool has_gradient = false;
};

/// What a stage gets before its first unit and gives after its last one. Two stages list what travels between them in
/// the same order.
struct StageFlow {
  std::vector<StageValue> in{};
  std::vector<StageValue> out{};
  std::size_t skips = 0;  ///< on the stack before its first unit, those of others included
};

/// What flows into and out of each stage. `unet` is bound on the meta device.
std::vector<StageFlow> stage_flows(const nn::UNet2D& unet, const std::vector<layout::Range>& stages,
                                   const ActivationBatch& batch);

}  // namespace ddpm::parallel
