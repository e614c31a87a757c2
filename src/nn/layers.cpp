#include "nn/layers.h"

#include <array>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "nn/ops/float_products.h"
#include "nn/ops/meta.h"
#include "nn/ops/repeated_convolution.h"
#include "nn/ops/resample.h"

namespace ddpm::nn {
namespace {

Parameter weight_of(const std::string& prefix, std::vector<int64_t> shape, Init init, Cut cut) {
  const int dim = cut.along == Cut::Along::none ? -1 : cut.along == Cut::Along::outputs ? 0 : 1;
  return {
      .name = prefix + ".weight", .shape = std::move(shape), .init = init, .split = {.dim = dim, .units = cut.units}};
}

// A layer cut by its inputs sums partial results and adds its bias once.
Parameter bias_of(const std::string& prefix, int64_t out, Init init, Cut cut) {
  const int dim = cut.along == Cut::Along::outputs ? 0 : -1;
  return {.name = prefix + ".bias", .shape = {out}, .init = init, .split = {.dim = dim, .units = cut.units}};
}

std::vector<int64_t> weight_shape(int64_t in, int64_t out, const ConvolutionOptions& o) {
  std::vector<int64_t> shape = {out, in};
  shape.insert(shape.end(), static_cast<std::size_t>(o.dimensions), o.kernel);
  return shape;
}

Init fan_in(int64_t in, const ConvolutionOptions& o) {
  int64_t inputs = in;
  for (int axis = 0; axis < o.dimensions; ++axis) inputs *= o.kernel;
  return Init::fan_in(inputs);
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}) {
  return wants_float_products(x) ? linear_in_float(x, weight, bias) : at::linear(x, weight, bias);
}

}  // namespace

Linear::Linear(const std::string& prefix, int64_t in, int64_t out, Cut cut)
    : AdaptableLayer(Kind::linear, weight_of(prefix, {out, in}, Init::fan_in(in), cut)),
      bias_(bias_of(prefix, out, Init::fan_in(in), cut)) {}

at::Tensor Linear::forward(const at::Tensor& x, const Partition& partition) const {
  const bool partial = weight_.split.cuts() && weight_.split.dim == 1;
  at::Tensor y = product(x, weight_.value, partial ? at::Tensor() : bias_.value);
  if (adapter_) {
    const auto [a, b] = adapter_->values(partition);
    y = at::add(y, product(product(x, a), b), adapter_->scale);
  }
  return partial ? partition.sum_channel_parts(y) + bias_.value : y;
}

graph::Value Linear::record(graph::Value x, graph::Graph& g) const { return g.add(graph::Linear{x, &weight_, &bias_}); }

Operations Linear::operations(double rows) const { return operations_of(rows); }

void Linear::collect(OwnedLayers& out) {
  out.parameters.insert(out.parameters.end(), {&weight_, &bias_});
  out.adaptable.push_back(this);
}

Convolution::Convolution(const std::string& prefix, int64_t in, int64_t out, const ConvolutionOptions& options, Cut cut)
    : AdaptableLayer(Kind::convolution, weight_of(prefix, weight_shape(in, out, options), fan_in(in, options), cut)),
      options_(options),
      bias_(bias_of(prefix, out, fan_in(in, options), cut)) {}

bool Convolution::takes(const at::Tensor& prepared, const at::Tensor& x, const Partition& partition) {
  return prepared.defined() && partition.tiles() == 1 && !at::GradMode::is_enabled() && x.is_cpu();
}

bool Convolution::takes_winograd(const at::Tensor& x, const Partition& partition, int64_t scale) const {
  return takes(winograd_.points, x, partition) && winograd_pays(scale * x.size(2), scale * x.size(3));
}

at::Tensor Convolution::forward(const at::Tensor& x, const Partition& partition) const {
  if (takes_winograd(x, partition, 1)) return winograd_inference(x, winograd_, /*repeated=*/false);
  if (!tiles_.repeated && takes(tiles_.values, x, partition)) return tile_convolution(x, tiles_);
  const bool partial = weight_.split.cuts() && weight_.split.dim == 1;
  at::Tensor y = convolved(x, partial ? at::Tensor() : bias_.value, partition);
  if (!partial) return y;
  y = partition.sum_channel_parts(y);
  return bias_.value.defined() ? y + bias_.value.view({-1, 1, 1}) : y;
}

at::Tensor Convolution::forward_unbiased(const at::Tensor& x, const Partition& partition) const {
  return convolved(x, {}, partition);
}

at::Tensor Convolution::convolved(const at::Tensor& x, const at::Tensor& bias, const Partition& partition) const {
  at::Tensor y = convolution(x, weight_.value, bias, options_, partition);
  if (!adapter_) return y;
  const auto [a, b] = adapter_->values(partition);
  const at::Tensor thin = convolution(x, a, {}, options_, partition);
  return at::add(y, convolution(thin, b, {}, pointwise(options_.dimensions), partition), adapter_->scale);
}

at::Tensor Convolution::forward_repeated(const at::Tensor& x, const Partition& partition) const {
  if (takes_winograd(x, partition, 2)) return winograd_inference(x, winograd_, /*repeated=*/true);
  if (tiles_.repeated && takes(tiles_.values, x, partition)) return tile_convolution(x, tiles_);
  if (takes(repeated_, x, partition)) return repeated_convolution(x, repeated_, bias_.value, partition);
  return forward(resample(x, Resampling::up, ResamplingFilter::box, partition), partition);
}

graph::Value Convolution::record(graph::Value x, graph::Graph& g) const {
  return g.add(graph::Convolve{x, &weight_, options_.bias ? &bias_ : nullptr, options_});
}

graph::Value Convolution::record_repeated(graph::Value x, graph::Graph& g) const {
  return record(g.add(graph::Box{x, Resampling::up}), g);
}

void Convolution::prepare_for_inference(bool repeated) {
  winograd_ = {};
  tiles_ = {};
  repeated_ = at::Tensor();
  const at::Tensor& weight = weight_.value;
  if (weight_.split.cuts() || adapter_) return;
  const std::array padding = {options_.before, options_.before};
  if (options_.before == options_.after && winograd_serves(weight, options_.stride, padding)) {
    winograd_ = winograd_weights(weight, bias_.value);
  } else if (tile_convolution_serves(weight, options_)) {
    tiles_ = tile_weights(weight, bias_.value, options_, repeated);
  } else if (repeated && weight.is_cpu() && !wants_float_products(weight)) {
    repeated_ = repeated_weight(weight);
  }
}

Operations Convolution::operations(const ImageSize& x) const {
  const ImageSize result{x.height / options_.stride, x.width / options_.stride, x.depth / options_.stride};
  return operations_of(result.pixels());
}

void Convolution::collect(OwnedLayers& out) {
  out.parameters.push_back(&weight_);
  if (options_.bias) out.parameters.push_back(&bias_);
  out.adaptable.push_back(this);
}

GroupNorm::GroupNorm(const std::string& prefix, int64_t channels, const GroupNormOptions& options, Cut cut)
    : options_(options),
      weight_(weight_of(prefix, {channels}, Init::ones(), cut)),
      bias_(bias_of(prefix, channels, Init::zeros(), cut)) {}

/// The options of the groups that are here.
GroupNormOptions GroupNorm::options_here() const {
  GroupNormOptions here = options_;
  here.groups /= weight_.split.parts;
  return here;
}

at::Tensor GroupNorm::forward(const at::Tensor& x, const Modulation& modulation, const Partition& partition) const {
  return group_norm_silu(x, weight_.value, bias_.value, options_here(), modulation, partition);
}

NormalisedSum GroupNorm::forward(const Branches& branches, const Partition& partition) const {
  return residual_group_norm_silu(branches, weight_.value, bias_.value, options_here(), {}, partition);
}

graph::Value GroupNorm::record(graph::Value x, const graph::Modulation& modulation, graph::Graph& g) const {
  return graph::record_norm(g, x, &weight_, &bias_, options_, modulation);
}

void GroupNorm::collect(OwnedLayers& out) { out.parameters.insert(out.parameters.end(), {&weight_, &bias_}); }

AdaGroupNorm::AdaGroupNorm(const std::string& prefix, int64_t channels, int64_t embedding_dim,
                           const GroupNormOptions& options, Cut cut)
    : options_(options), cut_(cut), linear_(prefix + ".linear", embedding_dim, 2 * channels) {}

at::Tensor AdaGroupNorm::forward(const at::Tensor& x, const at::Tensor& embedding, const Partition& partition) const {
  const bool cut = cut_.along != Cut::Along::none;
  auto [scale, shift] = halves(linear_.forward(embedding, partition), cut, partition);
  GroupNormOptions here = options_;
  if (cut) here.groups /= partition.channel_parts();
  const at::TensorOptions options = x.options().memory_format(std::nullopt);
  return group_norm_silu(x, at::ones({x.size(1)}, options), at::zeros({x.size(1)}, options), here,
                         {.scale = std::move(scale), .shift_after = std::move(shift)}, partition);
}

graph::Value AdaGroupNorm::record(graph::Value x, graph::Value embedding, graph::Graph& g) const {
  const graph::Value both = linear_.record(embedding, g);
  const graph::Value scale = g.add(graph::Half{both, 0});
  return graph::record_norm(g, x, nullptr, nullptr, options_,
                            {.scale = scale, .shift_after = g.add(graph::Half{both, 1})});
}

std::array<at::Tensor, 2> halves(const at::Tensor& both, bool cut, const Partition& partition) {
  if (!cut || partition.channel_parts() == 1) {
    const std::vector<at::Tensor> pair = both.chunk(2, 1);
    return {pair[0], pair[1]};
  }
  const int64_t channels = both.size(1) / 2;
  const int64_t own = channels / partition.channel_parts();
  const int64_t first = partition.channel_part() * own;
  const at::Tensor shared = partition.to_channel_parts(both);
  return {shared.narrow(1, first, own), shared.narrow(1, channels + first, own)};
}

Embedding::Embedding(const std::string& prefix, int64_t count, int64_t width)
    : weight_(weight_of(prefix, {count, width}, Init::normal(1.0), {})) {}

at::Tensor Embedding::forward(const at::Tensor& indices) const {
  const at::Tensor& weight = weight_.value;
  if (!weight.is_meta()) return at::embedding(weight, indices);
  return run_on_meta({.inputs = {weight},
                      .result_sizes = {indices.size(0), weight.size(1)},
                      .result_options = weight.options(),
                      .saved = {indices}});
}

graph::Value Embedding::record(graph::Value indices, graph::Graph& g) const {
  return g.add(graph::Lookup{indices, &weight_});
}

void Embedding::collect(OwnedLayers& out) { out.parameters.push_back(&weight_); }

}  // namespace ddpm::nn
