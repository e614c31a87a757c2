// The model as a list of primitive operations, each of which takes results of earlier ones: what formats of other
// programs are written from. Units describe themselves by record(), beside the forward() that computes the same.
//
// Images are [N, C, H, W] and volumes [N, C, D, H, W]. N is any number; H and W are any that forward() takes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "nn/operations.h"
#include "nn/ops/activation.h"
#include "nn/ops/convolution.h"
#include "nn/ops/group_norm_types.h"
#include "nn/ops/resample.h"
#include "nn/parameter.h"

namespace ddpm::nn::graph {

/// The result of an operation: its place in Graph::operations.
struct Value {
  int64_t index = -1;
  [[nodiscard]] bool exists() const { return index >= 0; }
};

struct Input {
  std::string name;
};
/// x in the type in which the model computes, that of its weights.
struct Working {
  Value x;
};
struct Float {
  Value x;
};
/// x · scale + offset
struct Affine {
  Value x;
  double scale;
  double offset;
};
/// nn::sinusoids() of t [N], in float32.
struct Sinusoids {
  Value t;
  int64_t width;
  bool flip_sin_to_cos;
  int64_t freq_shift;
};
/// Sines, then cosines, of 2π f ln t for t [N] and frequencies f, in float32.
struct FourierFeatures {
  Value t;
  const Parameter* frequencies;
};
/// Rows [N, width] of a table.
struct Lookup {
  Value indices;
  const Parameter* table;
};
/// A product with a matrix along the last dimension.
struct Linear {
  Value x;
  const Parameter* weight;
  const Parameter* bias;
};
/// One half of the columns of x [N, 2 C].
struct Half {
  Value x;
  int64_t which;
};
struct Activate {
  Value x;
  Activation activation;
};
struct Add {
  Value a;
  Value b;
};
/// x + shift, one number [N, C] for all pixels of a channel.
struct Shift {
  Value x;
  Value shift;
};
/// x · (1 + scale) + shift, likewise.
struct Modulate {
  Value x;
  Value scale;
  Value shift;
};
/// Group normalisation; weight and bias may be null together.
struct Normalise {
  Value x;
  int64_t groups;
  double eps;
  const Parameter* weight;
  const Parameter* bias;
};
/// Around the image lie zeros, or its other side along axes that are periodic; bias may be null.
struct Convolve {
  Value x;
  const Parameter* weight;
  const Parameter* bias;
  ConvolutionOptions options;
};
/// The mean of 2 x 2 pixels (of volumes 2 x 2 x 2), or each pixel four (eight) times.
struct Box {
  Value x;
  Resampling resampling;
};
/// The filter (1, 3, 3, 1) / 8 in both directions, with zeros around the image or the image reflected.
struct Filter {
  Value x;
  Resampling resampling;
  bool reflects;
  int64_t channels;
};
/// q, k, v [N, P, heads · head_dim] -> the same shape
struct Attend {
  Value q;
  Value k;
  Value v;
  int64_t heads;
  int64_t head_dim;
};
/// [N, C, H, W] -> [N, H · W, C]
struct Rows {
  Value x;
};
/// [N, P, C] -> the shape of `like`, whose pixels are P
struct Pixels {
  Value rows;
  Value like;
};
/// The channels of a, then those of b.
struct Join {
  Value a;
  Value b;
};
/// x of each image divided by its t [N], both in float32.
struct DivideByTime {
  Value x;
  Value t;
};

using Operation =
    std::variant<Input, Working, Float, Affine, Sinusoids, FourierFeatures, Lookup, Linear, Half, Activate, Add, Shift,
                 Modulate, Normalise, Convolve, Box, Filter, Attend, Rows, Pixels, Join, DivideByTime>;

struct Graph {
  int64_t axes = 2;                 ///< axes of an image: 2, or 3 for volumes
  std::vector<bool> periodic = {};  ///< one for each axis, depth first
  std::vector<Operation> operations = {};
  Value output = {};  ///< the prediction, in float32

  Value add(Operation operation) {
    operations.push_back(std::move(operation));
    return {std::ssize(operations) - 1};
  }
};

/// What flows between units, as nn::UnitState holds it.
struct UnitValues {
  Value x = {};
  Value temb = {};
  std::vector<Value> skips = {};
  Value timesteps = {};
  Value class_labels = {};
  Value parameters = {};
  Value embedding = {};
  Value picture = {};
};

/// nn::Modulation
struct Modulation {
  Value shift_before = {};
  Value scale = {};
  Value shift_after = {};
};

/// nn::group_norm_silu(); weight and bias may be null together.
Value record_norm(Graph& g, Value x, const Parameter* weight, const Parameter* bias, const GroupNormOptions& options,
                  const Modulation& modulation);
/// nn::resample() of x, which has so many channels.
Value record_resampled(Graph& g, Value x, Resampling resampling, ResamplingFilter filter, int64_t channels);

}  // namespace ddpm::nn::graph
