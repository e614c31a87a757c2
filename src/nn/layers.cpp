#include "nn/layers.h"

#include "nn/ops/float_products.h"
#include "nn/ops/meta.h"

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

}  // namespace

Linear::Linear(const std::string& prefix, int64_t in, int64_t out, Cut cut)
    : weight_(weight_of(prefix, {out, in}, Init::fan_in(in), cut)),
      bias_(bias_of(prefix, out, Init::fan_in(in), cut)) {}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const at::Tensor& weight = weight_.value;
  return wants_float_products(x) ? linear_in_float(x, weight, bias_.value) : at::linear(x, weight, bias_.value);
}

Operations Linear::operations(double rows) const { return {.all = 2.0 * static_cast<double>(weight_.numel()) * rows}; }

void Linear::collect(std::vector<Parameter*>& out) { out.insert(out.end(), {&weight_, &bias_}); }

Conv2d::Conv2d(const std::string& prefix, int64_t in, int64_t out, const ConvolutionOptions& options, Cut cut)
    : options_(options),
      weight_(weight_of(prefix, {out, in, options.kernel, options.kernel},
                        Init::fan_in(in * options.kernel * options.kernel), cut)),
      bias_(bias_of(prefix, out, Init::fan_in(in * options.kernel * options.kernel), cut)) {}

at::Tensor Conv2d::forward(const at::Tensor& x, const Partition& partition) const {
  return convolution(x, weight_.value, bias_.value, options_, partition);
}

Operations Conv2d::operations(const ImageSize& x) const {
  const ImageSize result{x.height / options_.stride, x.width / options_.stride};
  return {.all = 2.0 * static_cast<double>(weight_.numel()) * result.pixels()};
}

void Conv2d::collect(std::vector<Parameter*>& out) { out.insert(out.end(), {&weight_, &bias_}); }

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

void GroupNorm::collect(std::vector<Parameter*>& out) { out.insert(out.end(), {&weight_, &bias_}); }

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

void Embedding::collect(std::vector<Parameter*>& out) { out.push_back(&weight_); }

}  // namespace ddpm::nn
