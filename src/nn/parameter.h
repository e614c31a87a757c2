// A weight of the model: its name, shape and initial distribution, and the tensor it is bound to.
//
// Layers own their parameters, but not their storage: `value` is undefined until someone binds it to a tensor of the
// right shape, in any floating dtype, on any device (the meta device too). Training binds views of flat buffers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/parameter_role.h"
#include "base/split.h"

namespace ddpm::nn {

/// The distribution of a parameter's initial values, PyTorch's for the same layer.
struct Init {
  enum class Kind : uint8_t { uniform, normal, constant };
  Kind kind = Kind::constant;
  double scale = 0.0;  ///< uniform: in [-scale, scale); normal: standard deviation; constant: the value

  /// Weights (Kaiming uniform with a = sqrt(5)) and biases of linear and convolution layers: bound 1 / sqrt(fan_in).
  static Init fan_in(int64_t fan_in);
  static Init normal(double standard_deviation) { return {Kind::normal, standard_deviation}; }
  static Init ones() { return {Kind::constant, 1.0}; }
  static Init zeros() { return {Kind::constant, 0.0}; }
};

struct Parameter {
  std::string name;            ///< its key in diffusers' state dict
  std::vector<int64_t> shape;  ///< shape of what is here: the whole weight, or the part that `split` says
  Init init = {};
  base::Split split = {};  ///< how tensor parallelism cuts it
  base::ParameterRole role = base::ParameterRole::trained;
  int unit = -1;  ///< index of the unit that uses it
  at::Tensor value = {};

  /// Elements of what is here.
  [[nodiscard]] int64_t numel() const;
  [[nodiscard]] std::vector<int64_t> whole_shape() const { return split.whole(shape); }
};

/// The part that is here of a whole tensor.
at::Tensor part_of(const at::Tensor& whole, const base::Split& split);

/// Whether a weight of this shape is that of a convolution, in two or three dimensions.
bool is_kernel(at::IntArrayRef shape);
/// A weight as the one-dimensional run of values that memory holds: convolution weights lie channels-last in it, all
/// others row-major. A copy, unless the tensor lies so already.
at::Tensor stored_run(const at::Tensor& weight);
/// The view of such a run as a weight of `shape`.
at::Tensor view_of_run(const at::Tensor& run, at::IntArrayRef shape);
/// The view of `flat` (1-D, numel() elements) as the parameter's value.
at::Tensor view_of(const Parameter& parameter, const at::Tensor& flat);

/// The initial values of the whole weight in logical row-major order: `out` has as many elements. Element e is a pure
/// function of (seed, index, e); `index` is the parameter's place in UNet2D::parameters().
void initial_values(const Parameter& parameter, int index, uint64_t seed, std::span<float> out);

/// Binds each parameter to memory of its own, uninitialised: for inference, export and tests.
void allocate(std::span<Parameter* const> parameters, const at::TensorOptions& options);

/// Writes initial_values() into the bound tensors, whatever their dtype and device. Nothing happens on the meta device.
void initialize(std::span<Parameter* const> parameters, uint64_t seed);

}  // namespace ddpm::nn
