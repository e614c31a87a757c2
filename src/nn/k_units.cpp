#include "nn/k_units.h"

#include <utility>

#include "base/check.h"
#include "nn/dropout.h"
#include "nn/ops/concatenate.h"

namespace ddpm::nn {
namespace {

constexpr ConvolutionOptions kShortcut{.kernel = 1, .stride = 1, .before = 0, .after = 0, .bias = false};

GroupNormOptions second_norm(const KResnetOptions& o) {
  GroupNormOptions norm = o.norm;
  norm.groups = o.groups_out;
  return norm;
}

}  // namespace

KResnetUnit::KResnetUnit(const std::string& name, const KResnetOptions& options)
    : Unit(name),
      options_(options),
      norm1_(name + ".norm1", options.in, options.time_embedding_dim, options.norm),
      conv1_(name + ".conv1", options.in, options.out, {}, Cut::outputs(options.groups_out)),
      norm2_(name + ".norm2", options.out, options.time_embedding_dim, second_norm(options),
             Cut::outputs(options.groups_out)),
      conv2_(name + ".conv2", options.out, options.out, {}, Cut::inputs(options.groups_out)) {
  if (options.in != options.out) conv_shortcut_.emplace(name + ".conv_shortcut", options.in, options.out, kShortcut);
  own(norm1_);
  own(conv1_);
  own(norm2_);
  own(conv2_);
  if (conv_shortcut_) own(*conv_shortcut_);
}

at::Tensor KResnetUnit::residual_block(const at::Tensor& x, const at::Tensor& embedding,
                                       const ForwardContext& context) const {
  const Partition& partition = context.partition;
  at::Tensor h = conv1_.forward(partition.to_channel_parts(norm1_.forward(x, embedding, partition)), partition);
  h = dropout(norm2_.forward(h, embedding, partition), options_.dropout, options_.dropout_layer, context);
  const at::Tensor residual = conv_shortcut_ ? conv_shortcut_->forward(x, partition) : x;
  return residual + conv2_.forward(h, partition);
}

UnitState KResnetUnit::forward(UnitState state, const ForwardContext& context) const {
  const auto taken = static_cast<std::size_t>(options_.takes_skips);
  if (taken > 0) {
    DDPM_CHECK(state.skips.size() >= taken, "{} takes {} skips of {}", name(), taken, state.skips.size());
    state.x = concatenate(state.x, state.skips.back());
    state.skips.resize(state.skips.size() - taken);
  }
  state.x = residual_block(std::exchange(state.x, {}), state.embedding, context);
  if (options_.pushes_skip) state.skips.push_back(state.x);
  state.x = resample(state.x, options_.resampling_after, ResamplingFilter::reflected_fir, context.partition);
  return state;
}

graph::Value KResnetUnit::record_block(graph::Value x, graph::Value embedding, graph::Graph& g) const {
  graph::Value h = conv1_.record(norm1_.record(x, embedding, g), g);
  h = conv2_.record(norm2_.record(h, embedding, g), g);
  return g.add(graph::Add{conv_shortcut_ ? conv_shortcut_->record(x, g) : x, h});
}

graph::UnitValues KResnetUnit::record(graph::UnitValues state, graph::Graph& g) const {
  if (options_.takes_skips > 0) {
    state.x = g.add(graph::Join{state.x, state.skips.back()});
    state.skips.resize(state.skips.size() - static_cast<std::size_t>(options_.takes_skips));
  }
  state.x = record_block(state.x, state.embedding, g);
  if (options_.pushes_skip) state.skips.push_back(state.x);
  state.x =
      graph::record_resampled(g, state.x, options_.resampling_after, ResamplingFilter::reflected_fir, options_.out);
  return state;
}

void KResnetUnit::prepare_for_inference() {
  conv1_.prepare_for_inference(/*repeated=*/false);
  conv2_.prepare_for_inference(/*repeated=*/false);
}

Operations KResnetUnit::operations(ImageSize& size) const {
  Operations operations = norm1_.operations();
  operations += conv1_.operations(size);
  operations += norm2_.operations();
  operations += conv2_.operations(size);
  if (conv_shortcut_) operations += conv_shortcut_->operations(size);
  size = size.resampled(options_.resampling_after);
  return operations;
}

}  // namespace ddpm::nn
