// The UNet is a list of units in execution order: the seam for activation checkpointing, ZeRO-3, pipeline cuts,
// profiling and planning. A unit maps one State to the next and owns the parameters it reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/operations.h"
#include "nn/parameter.h"
#include "nn/partition.h"

namespace ddpm::nn {

/// What flows between units. Activations are [N, C, H, W], channels-last, in the dtype of the parameters.
struct State {
  at::Tensor x = {};                   ///< current activation
  at::Tensor temb = {};                ///< activated time (and class) embedding [N, time_embedding_dim]
  std::vector<at::Tensor> skips = {};  ///< stack: pushed on the way down, popped on the way up
  at::Tensor timesteps = {};           ///< [N], as given
  at::Tensor class_labels = {};        ///< as given, or undefined
};

/// Makes dropout a pure function of (seed, step, position in the global batch): see nn/dropout.h.
struct RandomContext {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t first_position = 0;  ///< position of image 0 of this batch in the global batch
  bool training = false;        ///< false: no dropout
  at::Tensor step_on_device{};  ///< `step` as int64, one number, where activations are; undefined: made of `step`
};

struct Context {
  RandomContext random;
  const Partition& partition;
  bool recompute_attention = false;  ///< keep only the inputs of attention blocks for backward: see nn/recompute.h
};

class Unit {
 public:
  explicit Unit(std::string name) : name_(std::move(name)) {}
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  virtual ~Unit() = default;

  /// A pure function of its arguments and of the bound parameters: it may run again to recompute activations.
  [[nodiscard]] virtual State forward(State state, const Context& context) const = 0;
  /// Counts the operations of forward() for one image whose State::x has this `size`, and sets `size` to that of the
  /// result.
  [[nodiscard]] virtual Operations operations(ImageSize& size) const = 0;
  /// Its prefix in diffusers' names: "conv_in", "down_blocks.0.resnets.1", "mid_block.resnets.0", "conv_out" ...
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The parameters in the order in which forward() reads them; their addresses are stable.
  [[nodiscard]] std::span<Parameter* const> parameters() const { return parameters_; }

 protected:
  /// Registers what a layer holds; called by constructors, in the order of use.
  template <typename Layer>
  void own(Layer& layer) {
    layer.collect(parameters_);
  }

 private:
  std::string name_;
  std::vector<Parameter*> parameters_;
};

}  // namespace ddpm::nn
