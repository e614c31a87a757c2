#include "nn/unet2d_units.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "nn/blocks/block_groups.h"
#include "nn/blocks/block_table.h"
#include "nn/ops/concatenate.h"
#include "nn/ops/resample.h"
#include "nn/recompute.h"

namespace ddpm::nn {
namespace {

// Padding 0 is diffusers' way to say: zeros below and to the right only.
ConvolutionOptions resampling_convolution(Resampling resampling, const UNet2DConfig& c) {
  ConvolutionOptions options{.dimensions = static_cast<int>(c.dimensions)};
  if (resampling == Resampling::up) return options;
  options.stride = 2;
  options.before = c.downsample_padding;
  return options;
}

bool has_block(const std::vector<std::string>& types, Resampler resampler) {
  return std::ranges::any_of(types, [&](const std::string& name) { return block_type(name).resampler == resampler; });
}

}  // namespace

InputUnit::InputUnit(const UNet2DConfig& c)
    : Unit("conv_in"),
      activation_(activation_of(c.act_fn)),
      center_input_sample_(c.center_input_sample),
      keeps_embedding_(has_block(c.down_block_types, Resampler::k) || has_block(c.up_block_types, Resampler::k)),
      keeps_picture_(has_block(c.down_block_types, Resampler::skip)),
      condition_(c),
      conv_in_("conv_in", c.in_channels, c.block_out_channels.front(), {.dimensions = static_cast<int>(c.dimensions)}) {
  own(condition_);
  own(conv_in_);
}

UnitState InputUnit::forward(UnitState state, const ForwardContext& context) const {
  const at::ScalarType dtype = conv_in_.dtype();
  // Every residual block activates the embedding before it projects it: once is enough.
  const at::Tensor embedding = condition_.forward(state.timesteps, state.given, dtype);
  state.temb = activate(embedding, activation_);
  if (keeps_embedding_) state.embedding = embedding;
  const at::Tensor images = center_input_sample_ ? 2 * state.x - 1 : state.x;
  const at::Tensor stored = images.to(dtype).contiguous(at::MemoryFormat::ChannelsLast);
  if (keeps_picture_) state.picture = stored;
  state.x = conv_in_.forward(stored, context.partition);
  state.skips.push_back(state.x);
  return state;
}

graph::UnitValues InputUnit::record(graph::UnitValues state, graph::Graph& g) const {
  const graph::Value embedding = condition_.record(state, g);
  state.temb = g.add(graph::Activate{embedding, activation_});
  if (keeps_embedding_) state.embedding = embedding;
  const graph::Value images = center_input_sample_ ? g.add(graph::Affine{state.x, 2.0, -1.0}) : state.x;
  const graph::Value stored = g.add(graph::Working{images});
  if (keeps_picture_) state.picture = stored;
  state.x = conv_in_.record(stored, g);
  state.skips.push_back(state.x);
  return state;
}

Operations InputUnit::operations(ImageSize& size) const {
  Operations operations = condition_.operations();
  operations += conv_in_.operations(size);
  return operations;
}

ResnetUnit::ResnetUnit(const std::string& name, const ResnetOptions& resnet, const std::string& attention_name,
                       const std::optional<AttentionOptions>& attention, SkipUse skip)
    : Unit(name), skip_(skip), resnet_(name, resnet) {
  own(resnet_);
  if (attention) {
    attention_.emplace(attention_name, *attention);
    own(*attention_);
  }
}

UnitState ResnetUnit::forward(UnitState state, const ForwardContext& context) const {
  if (skip_ == SkipUse::pop) {
    DDPM_CHECK(!state.skips.empty(), "{} has no skip to take", name());
    state.x = concatenate(state.x, state.skips.back());
    state.skips.pop_back();
  }
  Branches branches = resnet_.forward(std::exchange(state.x, {}), state.temb, context);
  state.x = attention_ ? attend(std::move(branches), context) : joined(branches);
  if (skip_ == SkipUse::push) state.skips.push_back(state.x);
  return state;
}

graph::UnitValues ResnetUnit::record(graph::UnitValues state, graph::Graph& g) const {
  if (skip_ == SkipUse::pop) {
    state.x = g.add(graph::Join{state.x, state.skips.back()});
    state.skips.pop_back();
  }
  state.x = resnet_.record(state.x, state.temb, g);
  if (attention_) state.x = attention_->record(state.x, g);
  if (skip_ == SkipUse::push) state.skips.push_back(state.x);
  return state;
}

void ResnetUnit::prepare_for_inference() {
  resnet_.prepare_for_inference();
  if (attention_) attention_->prepare_for_inference();
}

Operations ResnetUnit::operations(ImageSize& size) const {
  Operations operations = resnet_.operations(size);
  size = size.resampled(resnet_.resampling());
  if (attention_) operations += attention_->operations(size);
  return operations;
}

at::Tensor ResnetUnit::attend(Branches branches, const ForwardContext& context) const {
  if (!context.recompute_attention) return attention_->forward(std::move(branches), context);
  const auto body = [this, context](UnitState state) {
    state.x = attention_->forward({.addend = std::exchange(state.x, {})}, context);
    return state;
  };
  UnitState state{.x = joined(std::exchange(branches, {}))};
  return recompute_in_backward(std::move(state), body).x;
}

ResampleUnit::ResampleUnit(const std::string& name, int64_t channels, Resampling resampling, const UNet2DConfig& c)
    : Unit(name),
      resampling_(resampling),
      conv_(name + ".conv", channels, channels, resampling_convolution(resampling, c)) {
  own(conv_);
}

UnitState ResampleUnit::forward(UnitState state, const ForwardContext& context) const {
  if (resampling_ == Resampling::up) {
    state.x = conv_.forward_repeated(state.x, context.partition);
  } else {
    state.x = conv_.forward(state.x, context.partition);
    state.skips.push_back(state.x);
  }
  return state;
}

graph::UnitValues ResampleUnit::record(graph::UnitValues state, graph::Graph& g) const {
  const bool up = resampling_ == Resampling::up;
  state.x = up ? conv_.record_repeated(state.x, g) : conv_.record(state.x, g);
  if (!up) state.skips.push_back(state.x);
  return state;
}

void ResampleUnit::prepare_for_inference() { conv_.prepare_for_inference(resampling_ == Resampling::up); }

/// Upsampling repeats pixels before the convolution, downsampling is the convolution's stride.
Operations ResampleUnit::operations(ImageSize& size) const {
  const ImageSize before = size;
  size = size.resampled(resampling_);
  return conv_.operations(resampling_ == Resampling::up ? size : before);
}

OutputUnit::OutputUnit(const UNet2DConfig& c, bool adds_picture)
    : Unit("conv_out"),
      divide_by_timesteps_(c.time_embedding_type == TimeEmbedding::fourier),
      adds_picture_(adds_picture),
      out_channels_(c.out_channels),
      conv_norm_out_("conv_norm_out", c.block_out_channels.front(),
                     {.groups = plain_norm_groups(c.block_out_channels.front(), c.norm_num_groups),
                      .eps = c.norm_eps,
                      .activation = Activation::silu,
                      .in_any_order = is_periodic(c)}),
      conv_out_("conv_out", c.block_out_channels.front(), c.out_channels,
                {.dimensions = static_cast<int>(c.dimensions)}) {
  own(conv_norm_out_);
  own(conv_out_);
}

UnitState OutputUnit::forward(UnitState state, const ForwardContext& context) const {
  state.x = conv_out_.forward(conv_norm_out_.forward(state.x, {}, context.partition), context.partition);
  if (adds_picture_) {
    state.x = state.x + resample(state.picture, Resampling::up, ResamplingFilter::fir, context.partition);
  }
  state.x = state.x.to(at::kFloat);
  if (divide_by_timesteps_) state.x = state.x / state.timesteps.to(at::kFloat).view({-1, 1, 1, 1});
  return state;
}

graph::UnitValues OutputUnit::record(graph::UnitValues state, graph::Graph& g) const {
  state.x = conv_out_.record(conv_norm_out_.record(state.x, {}, g), g);
  if (adds_picture_) {
    state.x = g.add(graph::Add{
        state.x, graph::record_resampled(g, state.picture, Resampling::up, ResamplingFilter::fir, out_channels_)});
  }
  state.x = g.add(graph::Float{state.x});
  if (divide_by_timesteps_) state.x = g.add(graph::DivideByTime{state.x, state.timesteps});
  return state;
}

Operations OutputUnit::operations(ImageSize& size) const { return conv_out_.operations(size); }

}  // namespace ddpm::nn
