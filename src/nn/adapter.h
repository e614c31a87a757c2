// Low-rank adaptation (LoRA: Hu et al. 2021, arXiv 2106.09685, equation 3). Beside a layer's weight W, which is frozen,
// lie two thin ones that are trained:
//
//   y = W x + b + (alpha / rank) B A x,   A [rank, in], B [out, rank]
//
// Beside a convolution, A is a convolution to `rank` channels with the layer's own kernel, and B a pointwise one.
// Names, shapes and the initial distribution are those of Hugging Face's PEFT.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/operations.h"
#include "nn/parameter.h"
#include "nn/partition.h"

namespace ddpm::nn {

struct Adapter {
  Parameter a;
  Parameter b;
  double scale = 1.0;

  /// A and B as forward() multiplies them. Of a layer that is cut, one of them is whole on every rank, and its gradient
  /// the sum of what the ranks find.
  [[nodiscard]] std::array<at::Tensor, 2> values(const Partition& partition) const;
};

/// A layer that may have an adapter.
class AdaptableLayer {
 public:
  enum class Kind : uint8_t { linear, convolution };

  /// The layer's name, which PEFT calls a module: that of its weight without ".weight".
  [[nodiscard]] std::string name() const;
  /// Whether a value of model.lora_targets means this layer: "attention", "convolutions", or the end of its name.
  [[nodiscard]] bool is_target(const std::string& target) const;
  /// Adds an adapter of this rank. Its parameters are not bound yet.
  void adapt(int64_t rank, double scale);
  /// Null: there is none.
  [[nodiscard]] const Adapter* adapter() const { return adapter_ ? &*adapter_ : nullptr; }
  /// Appends the adapter's parameters.
  void collect_adapter(std::vector<Parameter*>& out);
  [[nodiscard]] const Parameter& weight() const { return weight_; }

 protected:
  AdaptableLayer(Kind kind, Parameter weight) : kind_(kind), weight_(std::move(weight)) {}
  ~AdaptableLayer() = default;

  /// The operations of a forward pass that multiplies the layer's weight, and its adapter's, with so many pixels or
  /// rows.
  [[nodiscard]] Operations operations_of(double rows) const;

  Kind kind_;
  Parameter weight_;
  std::optional<Adapter> adapter_;
};

/// scale B A in the shape of the layer's weight, in float32: what merging adds to the weight. All parameters are bound.
at::Tensor merged_difference(const Adapter& adapter, at::IntArrayRef weight_shape);

/// What a unit owns.
struct OwnedLayers {
  std::vector<Parameter*> parameters;
  std::vector<AdaptableLayer*> adaptable;
};

}  // namespace ddpm::nn
