#include "nn/time_embedding.h"

#include <cmath>
#include <numbers>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "nn/sinusoids.h"

namespace ddpm::nn {
namespace {

constexpr double kFourierScale = 16.0;  // UNet2DModel fixes it

}  // namespace

int64_t time_embedding_dim(const UNet2DConfig& c) {
  return c.time_embedding_dim.value_or(4 * c.block_out_channels.front());
}

at::Tensor sinusoid_frequencies(int64_t width, int64_t freq_shift, const at::TensorOptions& options) {
  const int64_t half = width / 2;
  const at::Tensor index = at::arange(0, half, options);
  return at::exp(index * -std::log(kLongestPeriod) / static_cast<double>(half - freq_shift));
}

at::Tensor sinusoids(const at::Tensor& t, int64_t width, bool flip_sin_to_cos, int64_t freq_shift) {
  const at::Tensor frequencies = sinusoid_frequencies(width, freq_shift, t.options().dtype(at::kFloat));
  const at::Tensor angles = t.to(at::kFloat).unsqueeze(1) * frequencies.unsqueeze(0);
  const at::Tensor sines = at::sin(angles);
  const at::Tensor cosines = at::cos(angles);
  const at::Tensor features = flip_sin_to_cos ? at::cat({cosines, sines}, 1) : at::cat({sines, cosines}, 1);
  return width % 2 == 0 ? features : at::constant_pad_nd(features, {0, 1});
}

TimeProjection::TimeProjection(const UNet2DConfig& c)
    : width_(c.block_out_channels.front()), flip_sin_to_cos_(c.flip_sin_to_cos), freq_shift_(c.freq_shift) {
  if (c.time_embedding_type == TimeEmbedding::fourier) {
    frequencies_ = Parameter{.name = "time_proj.weight",
                             .shape = {width_},
                             .init = Init::normal(kFourierScale),
                             .role = base::ParameterRole::constant};
    width_ *= 2;
  } else if (c.time_embedding_type == TimeEmbedding::learned) {
    table_.emplace("time_proj", c.num_train_timesteps.value(), width_);
  }
}

at::Tensor TimeProjection::forward(const at::Tensor& t, at::ScalarType dtype) const {
  if (table_) return table_->forward(t);
  if (!frequencies_) return sinusoids(t, width_, flip_sin_to_cos_, freq_shift_).to(dtype);
  // Factors are multiplied from left to right, as in diffusers: the angles are large, and another order would round
  // them differently.
  const at::Tensor angles =
      at::log(t.to(at::kFloat)).unsqueeze(1) * frequencies_->value.to(at::kFloat).unsqueeze(0) * 2.0 * std::numbers::pi;
  return at::cat({at::sin(angles), at::cos(angles)}, 1).to(dtype);
}

graph::Value TimeProjection::record(graph::Value t, graph::Graph& g) const {
  if (table_) return table_->record(t, g);
  if (frequencies_) return g.add(graph::Working{g.add(graph::FourierFeatures{t, &*frequencies_})});
  return g.add(graph::Working{g.add(graph::Sinusoids{t, width_, flip_sin_to_cos_, freq_shift_})});
}

void TimeProjection::collect(OwnedLayers& out) {
  if (frequencies_) out.parameters.push_back(&*frequencies_);
  if (table_) table_->collect(out);
}

TimestepEmbedding::TimestepEmbedding(const std::string& prefix, int64_t in, int64_t out)
    : linear_1_(prefix + ".linear_1", in, out), linear_2_(prefix + ".linear_2", out, out) {}

at::Tensor TimestepEmbedding::forward(const at::Tensor& x) const {
  return linear_2_.forward(at::silu(linear_1_.forward(x)));
}

graph::Value TimestepEmbedding::record(graph::Value x, graph::Graph& g) const {
  return linear_2_.record(g.add(graph::Activate{linear_1_.record(x, g), Activation::silu}), g);
}

Operations TimestepEmbedding::operations() const {
  Operations operations = linear_1_.operations(1);
  operations += linear_2_.operations(1);
  return operations;
}

void TimestepEmbedding::collect(OwnedLayers& out) {
  linear_1_.collect(out);
  linear_2_.collect(out);
}

ConditionEmbedding::ConditionEmbedding(const UNet2DConfig& c)
    : projection_(c), time_("time_embedding", projection_.width(), time_embedding_dim(c)) {
  if (c.class_embed_type == ClassEmbedding::timestep) {
    class_time_.emplace("class_embedding", projection_.width(), time_embedding_dim(c));
  } else if (!c.class_embed_type && c.num_class_embeds) {
    class_table_.emplace("class_embedding", *c.num_class_embeds, time_embedding_dim(c));
  }
  if (c.num_parameters) parameters_.emplace("parameter_embedding", *c.num_parameters, time_embedding_dim(c));
}

at::Tensor ConditionEmbedding::forward(const at::Tensor& timesteps, const Conditions& given,
                                       at::ScalarType dtype) const {
  at::Tensor embedding = time_.forward(projection_.forward(timesteps, dtype));
  if (given.class_labels.defined()) embedding = embedding + class_embedding(given.class_labels, dtype);
  if (parameters_) embedding = embedding + parameter_embedding(given, dtype);
  return embedding;
}

/// Chosen, not multiplied: nothing of what is left out can reach the sum.
at::Tensor ConditionEmbedding::parameter_embedding(const Conditions& given, at::ScalarType dtype) const {
  at::Tensor embedding = parameters_->forward(given.parameters.to(dtype));
  if (!given.parameters_kept.defined()) return embedding;
  return at::where(given.parameters_kept.unsqueeze(1), embedding, at::zeros({}, embedding.options()));
}

at::Tensor ConditionEmbedding::class_embedding(const at::Tensor& class_labels, at::ScalarType dtype) const {
  if (class_time_) return class_time_->forward(projection_.forward(class_labels, dtype));
  if (class_table_) return class_table_->forward(class_labels);
  return class_labels.to(dtype);  // "identity"
}

graph::Value ConditionEmbedding::record(const graph::UnitValues& state, graph::Graph& g) const {
  graph::Value embedding = time_.record(projection_.record(state.timesteps, g), g);
  if (state.class_labels.exists()) {
    const graph::Value of_class = class_time_    ? class_time_->record(projection_.record(state.class_labels, g), g)
                                  : class_table_ ? class_table_->record(state.class_labels, g)
                                                 : g.add(graph::Working{state.class_labels});
    embedding = g.add(graph::Add{embedding, of_class});
  }
  if (!parameters_) return embedding;
  return g.add(graph::Add{embedding, parameters_->record(g.add(graph::Working{state.parameters}), g)});
}

Operations ConditionEmbedding::operations() const {
  Operations operations = time_.operations();
  if (class_time_) operations += class_time_->operations();
  if (parameters_) operations += parameters_->operations();
  return operations;
}

void ConditionEmbedding::collect(OwnedLayers& out) {
  projection_.collect(out);
  time_.collect(out);
  if (class_time_) class_time_->collect(out);
  if (class_table_) class_table_->collect(out);
  if (parameters_) parameters_->collect(out);
}

}  // namespace ddpm::nn
