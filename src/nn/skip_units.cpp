#include "nn/skip_units.h"

#include <utility>

#include "nn/ops/resample.h"

namespace ddpm::nn {
namespace {

/// SiLU, whatever the activation of residual blocks is.
GroupNormOptions picture_norm(const ResnetOptions& resnet) {
  return {.groups = resnet.norm.groups, .eps = resnet.norm.eps, .activation = Activation::silu};
}

}  // namespace

SkipDownUnit::SkipDownUnit(const std::string& prefix, const ResnetOptions& resnet)
    : Unit(prefix + ".resnet_down"),
      resnet_(prefix + ".resnet_down", resnet),
      skip_conv_(prefix + ".skip_conv", kPictureChannels, resnet.out, pointwise(2)) {
  own(resnet_);
  own(skip_conv_);
}

UnitState SkipDownUnit::forward(UnitState state, const ForwardContext& context) const {
  state.picture = resample(state.picture, Resampling::down, ResamplingFilter::fir, context.partition);
  state.x = joined(resnet_.forward(std::exchange(state.x, {}), state.temb, context));
  state.x = skip_conv_.forward(state.picture, context.partition) + state.x;
  state.skips.push_back(state.x);
  return state;
}

graph::UnitValues SkipDownUnit::record(graph::UnitValues state, graph::Graph& g) const {
  state.picture = graph::record_resampled(g, state.picture, Resampling::down, ResamplingFilter::fir, kPictureChannels);
  state.x = resnet_.record(state.x, state.temb, g);
  state.x = g.add(graph::Add{skip_conv_.record(state.picture, g), state.x});
  state.skips.push_back(state.x);
  return state;
}

Operations SkipDownUnit::operations(ImageSize& size) const {
  Operations operations = resnet_.operations(size);
  size = size.resampled(Resampling::down);
  operations += skip_conv_.operations(size);
  return operations;
}

SkipUpUnit::SkipUpUnit(const std::string& prefix, const ResnetOptions& resnet, bool begins)
    : Unit(prefix + ".resnet_up"),
      begins_(begins),
      skip_norm_(prefix + ".skip_norm", resnet.in, picture_norm(resnet)),
      skip_conv_(prefix + ".skip_conv", resnet.in, kPictureChannels),
      resnet_(prefix + ".resnet_up", resnet) {
  own(skip_norm_);
  own(skip_conv_);
  own(resnet_);
}

UnitState SkipUpUnit::forward(UnitState state, const ForwardContext& context) const {
  const Partition& partition = context.partition;
  const at::Tensor prediction = skip_conv_.forward(skip_norm_.forward(state.x, {}, partition), partition);
  state.picture =
      begins_ ? prediction : resample(state.picture, Resampling::up, ResamplingFilter::fir, partition) + prediction;
  state.x = joined(resnet_.forward(std::exchange(state.x, {}), state.temb, context));
  return state;
}

graph::UnitValues SkipUpUnit::record(graph::UnitValues state, graph::Graph& g) const {
  const graph::Value prediction = skip_conv_.record(skip_norm_.record(state.x, {}, g), g);
  const auto grown = [&] {
    return graph::record_resampled(g, state.picture, Resampling::up, ResamplingFilter::fir, kPictureChannels);
  };
  state.picture = begins_ ? prediction : g.add(graph::Add{grown(), prediction});
  state.x = resnet_.record(state.x, state.temb, g);
  return state;
}

Operations SkipUpUnit::operations(ImageSize& size) const {
  Operations operations = skip_conv_.operations(size);
  operations += resnet_.operations(size);
  size = size.resampled(Resampling::up);
  return operations;
}

}  // namespace ddpm::nn
