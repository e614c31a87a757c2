// The UNet is a list of units in execution order: the seam for activation checkpointing, ZeRO-3, pipeline cuts,
// profiling and planning. A unit maps one UnitState to the next and owns the parameters it reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/adapter.h"
#include "nn/graph.h"
#include "nn/operations.h"
#include "nn/parameter.h"
#include "nn/partition.h"

namespace ddpm::nn {

/// What an image is predicted given, beside its noise level and further channels. The model's configuration says which
/// of these there are; the others are undefined.
struct Conditions {
  at::Tensor class_labels = {};  ///< int64 [N], or [N, time_embedding_dim] with class_embed_type = "identity"
  at::Tensor parameters = {};    ///< float32 [N, num_parameters]
  at::Tensor parameters_kept =
      {};  ///< bool [N]: the embedding of parameters is 0 where it is false; undefined: nowhere

  Conditions() = default;
  Conditions(at::Tensor labels) : class_labels(std::move(labels)) {}  // NOLINT(google-explicit-constructor)
  Conditions(at::Tensor labels, at::Tensor numbers, at::Tensor kept = {})
      : class_labels(std::move(labels)), parameters(std::move(numbers)), parameters_kept(std::move(kept)) {}
};

/// What flows between units. Activations are [N, C, H, W], channels-last, in the dtype of the parameters.
struct UnitState {
  at::Tensor x = {};                   ///< current activation
  at::Tensor temb = {};                ///< activated time (and class) embedding [N, time_embedding_dim]
  std::vector<at::Tensor> skips = {};  ///< stack: pushed on the way down, popped on the way up
  at::Tensor timesteps = {};           ///< [N], as given
  Conditions given = {};
  at::Tensor embedding = {};  ///< temb before its activation, where a unit reads it (K blocks)
  at::Tensor picture = {};    ///< on the way down the images, on the way up the prediction so far, at the
                              ///< resolution of x (skip blocks); otherwise undefined
};

/// Makes dropout a pure function of (seed, step, position in the global batch): see nn/dropout.h.
struct RandomContext {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t first_position = 0;  ///< position of image 0 of this batch in the global batch
  bool training = false;        ///< false: no dropout
  at::Tensor step_on_device{};  ///< `step` as int64, one number, where activations are; undefined: made of `step`
};

struct ForwardContext {
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
  [[nodiscard]] virtual UnitState forward(UnitState state, const ForwardContext& context) const = 0;
  /// Counts the operations of forward() for one image whose UnitState::x has this `size`, and sets `size` to that of
  /// the result.
  [[nodiscard]] virtual Operations operations(ImageSize& size) const = 0;
  /// Describes forward() without dropout: adds its operations to the graph.
  [[nodiscard]] virtual graph::UnitValues record(graph::UnitValues state, graph::Graph& g) const = 0;
  /// Computes from the bound parameters, once, what forward() without gradients takes in place of them.
  virtual void prepare_for_inference() {}
  /// The layers that may have an adapter.
  [[nodiscard]] std::span<AdaptableLayer* const> adaptable() const { return layers_.adaptable; }
  /// Appends the parameters of the adapters that its layers have got to its own.
  void own_adapters() {
    for (AdaptableLayer* layer : layers_.adaptable) layer->collect_adapter(layers_.parameters);
  }
  /// Its prefix in diffusers' names: "conv_in", "down_blocks.0.resnets.1", "mid_block.resnets.0", "conv_out" ...
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The parameters in the order in which forward() reads them; their addresses are stable.
  [[nodiscard]] std::span<Parameter* const> parameters() const { return layers_.parameters; }

 protected:
  /// Registers what a layer holds; called by constructors, in the order of use.
  template <typename Layer>
  void own(Layer& layer) {
    layer.collect(layers_);
  }

 private:
  std::string name_;
  OwnedLayers layers_;
};

}  // namespace ddpm::nn
