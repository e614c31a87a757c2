#include "nn/layers.h"

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
  const int split_dim = cut == Cut::none ? -1 : cut == Cut::outputs ? 0 : 1;
  return {.name = prefix + ".weight", .shape = std::move(shape), .init = init, .split_dim = split_dim};
}

// A layer cut by its inputs sums partial results and adds its bias once.
Parameter bias_of(const std::string& prefix, int64_t out, Init init, Cut cut) {
  return {.name = prefix + ".bias", .shape = {out}, .init = init, .split_dim = cut == Cut::outputs ? 0 : -1};
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

at::Tensor Linear::forward(const at::Tensor& x) const {
  at::Tensor y = product(x, weight_.value, bias_.value);
  if (!adapter_) return y;
  return at::add(y, product(product(x, adapter_->a.value), adapter_->b.value), adapter_->scale);
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

bool Convolution::takes_winograd(const at::Tensor& x, const Partition& partition, int64_t scale) const {
  return winograd_.points.defined() && partition.tiles() == 1 && !at::GradMode::is_enabled() && x.is_cpu() &&
         winograd_pays(scale * x.size(2), scale * x.size(3));
}

at::Tensor Convolution::forward(const at::Tensor& x, const Partition& partition) const {
  if (takes_winograd(x, partition, 1)) return winograd_convolution(x, winograd_, /*repeated=*/false);
  at::Tensor y = convolution(x, weight_.value, bias_.value, options_, partition);
  if (!adapter_) return y;
  const at::Tensor thin = convolution(x, adapter_->a.value, {}, options_, partition);
  return at::add(y, convolution(thin, adapter_->b.value, {}, pointwise(options_.dimensions), partition),
                 adapter_->scale);
}

at::Tensor Convolution::forward_repeated(const at::Tensor& x, const Partition& partition) const {
  if (takes_winograd(x, partition, 2)) return winograd_convolution(x, winograd_, /*repeated=*/true);
  if (repeated_.defined() && partition.tiles() == 1 && !at::GradMode::is_enabled()) {
    return repeated_convolution(x, repeated_, bias_.value, partition);
  }
  return forward(resample(x, Resampling::up, ResamplingFilter::box, partition), partition);
}

graph::Value Convolution::record(graph::Value x, graph::Graph& g) const {
  return g.add(graph::Convolve{x, &weight_, options_.bias ? &bias_ : nullptr, options_});
}

graph::Value Convolution::record_repeated(graph::Value x, graph::Graph& g) const {
  return record(g.add(graph::Box{x, Resampling::up}), g);
}

void Convolution::prepare_for_inference(bool repeated) {
  const at::Tensor& weight = weight_.value;
  if (winograd_serves(weight, options_)) {
    winograd_ = winograd_weights(weight, bias_.value);
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

at::Tensor GroupNorm::forward(const at::Tensor& x, const Modulation& modulation, const Partition& partition) const {
  return group_norm_silu(x, weight_.value, bias_.value, options_, modulation, partition);
}

NormalisedSum GroupNorm::forward(const Branches& branches, const Partition& partition) const {
  return residual_group_norm_silu(branches, weight_.value, bias_.value, options_, {}, partition);
}

graph::Value GroupNorm::record(graph::Value x, const graph::Modulation& modulation, graph::Graph& g) const {
  return graph::record_norm(g, x, &weight_, &bias_, options_, modulation);
}

void GroupNorm::collect(OwnedLayers& out) { out.parameters.insert(out.parameters.end(), {&weight_, &bias_}); }

AdaGroupNorm::AdaGroupNorm(const std::string& prefix, int64_t channels, int64_t embedding_dim,
                           const GroupNormOptions& options)
    : options_(options), channels_(channels), linear_(prefix + ".linear", embedding_dim, 2 * channels) {}

at::Tensor AdaGroupNorm::forward(const at::Tensor& x, const at::Tensor& embedding, const Partition& partition) const {
  const std::vector<at::Tensor> halves = linear_.forward(embedding).chunk(2, 1);
  const at::TensorOptions options = x.options().memory_format(std::nullopt);
  return group_norm_silu(x, at::ones({channels_}, options), at::zeros({channels_}, options), options_,
                         {.scale = halves[0], .shift_after = halves[1]}, partition);
}

graph::Value AdaGroupNorm::record(graph::Value x, graph::Value embedding, graph::Graph& g) const {
  const graph::Value both = linear_.record(embedding, g);
  const graph::Value scale = g.add(graph::Half{both, 0});
  return graph::record_norm(g, x, nullptr, nullptr, options_,
                            {.scale = scale, .shift_after = g.add(graph::Half{both, 1})});
}

Embedding::Embedding(const std::string& prefix, int64_t count, int64_t width)
    : weight_(weight_of(prefix, {count, width}, Init::normal(1.0), Cut::none)) {}

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
