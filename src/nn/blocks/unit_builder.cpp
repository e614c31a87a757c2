#include "nn/blocks/unit_builder.h"

#include <numbers>

#include <fmt/format.h>

#include "base/check.h"
#include "nn/blocks/block_groups.h"
#include "nn/time_embedding.h"

namespace ddpm::nn {

UnitBuilder::UnitBuilder(const UNet2DConfig& c)
    : c_(c),
      norm_{.eps = c.norm_eps, .in_any_order = is_periodic(c)},
      time_embedding_dim_(time_embedding_dim(c)),
      channels_(c.block_out_channels.front()) {
  add<InputUnit>(c);
  push_skip();
}

ResnetOptions UnitBuilder::resnet(int64_t in, int64_t out) {
  ResnetOptions o{.in = in, .out = out, .time_embedding_dim = time_embedding_dim_, .norm = norm_};
  o.norm.groups = plain_norm_groups(in, c_.norm_num_groups);
  o.norm.activation = activation_of(c_.act_fn);
  o.scale_shift = c_.resnet_time_scale_shift == TimeScaleShift::scale_shift;
  o.dropout = c_.dropout;
  o.dropout_layer = dropout_layers_++;
  o.dimensions = static_cast<int>(c_.dimensions);
  return o;
}

AttentionOptions UnitBuilder::attention(int64_t channels) const {
  AttentionOptions o{.channels = channels,
                     .head_dim = c_.attention_head_dim == 0 ? channels : c_.attention_head_dim,
                     .norm = norm_,
                     .in_any_order = norm_.in_any_order};
  o.norm->groups = plain_norm_groups(channels, c_.norm_num_groups);
  return o;
}

void UnitBuilder::add_residual(const BlockType& type, const BlockPlace& place, int64_t i, SkipUse skip) {
  const int64_t in = channels_ + (skip == SkipUse::pop ? pop_skip() : 0);
  channels_ = place.channels;
  add<ResnetUnit>(fmt::format("{}.resnets.{}", place.prefix, i), resnet(in, channels_),
                  fmt::format("{}.attentions.{}", place.prefix, i),
                  type.attention ? std::optional(attention(channels_)) : std::nullopt, skip);
  if (skip == SkipUse::push) push_skip();
}

void UnitBuilder::add_resampler(const BlockType& type, const std::string& name, ResamplerName how) {
  const bool down = type.resampling == Resampling::down;
  if (type.resampler == Resampler::residual ||
      (type.resampler == Resampler::configured && how == ResamplerName::resnet)) {
    ResnetOptions o = resnet(channels_, channels_);
    o.resampling = type.resampling;
    add<ResnetUnit>(name, o, "", std::nullopt, down ? SkipUse::push : SkipUse::none);
  } else {
    add<ResampleUnit>(name, channels_, type.resampling, c_);
  }
  if (down) push_skip();
}

void UnitBuilder::add_skip_residual(const BlockType& type, const BlockPlace& place, int64_t i, SkipUse skip,
                                    bool with_attention) {
  const int64_t taken = skip == SkipUse::pop ? pop_skip() : 0;
  ResnetOptions o = resnet(channels_ + taken, place.channels);
  o.norm.groups = joint_norm_groups(type, channels_, taken, c_.norm_num_groups);
  if (taken == 0) o.norm.groups = norm_groups(type.resampler, channels_, c_.norm_num_groups);
  o.groups_out = norm_groups(type.resampler, place.channels, c_.norm_num_groups);
  o.output_scale = std::numbers::sqrt2;
  std::optional<AttentionOptions> attended;
  if (with_attention) {
    attended = attention(place.channels);
    attended->norm->groups = kSkipAttentionGroups;
    attended->output_scale = std::numbers::sqrt2;
  }
  channels_ = place.channels;
  // The way up has one attention, after its last residual block.
  add<ResnetUnit>(fmt::format("{}.resnets.{}", place.prefix, i), o,
                  fmt::format("{}.attentions.{}", place.prefix, skip == SkipUse::pop ? 0 : i), attended, skip);
  if (skip == SkipUse::push) push_skip();
}

ResnetOptions UnitBuilder::skip_resampler(const BlockType& type, const BlockPlace& place) {
  ResnetOptions o = resnet(place.channels, place.channels);
  o.norm.groups = norm_groups(type.resampler, place.channels, c_.norm_num_groups);
  o.output_scale = std::numbers::sqrt2;
  o.shortcut = true;
  o.resampling = type.resampling;
  o.filter = ResamplingFilter::fir;
  return o;
}

void UnitBuilder::add_k_residual(const BlockPlace& place, int64_t i, KResnetOptions options) {
  options.time_embedding_dim = time_embedding_dim_;
  options.norm = {
      .groups = norm_groups(Resampler::k, options.in, 0), .eps = c_.norm_eps, .activation = activation_of(c_.act_fn)};
  options.groups_out = norm_groups(Resampler::k, place.channels, 0);
  options.dropout = c_.dropout;
  options.dropout_layer = dropout_layers_++;
  channels_ = options.out;
  add<KResnetUnit>(fmt::format("{}.resnets.{}", place.prefix, i), options);
}

int64_t UnitBuilder::pop_skip() {
  DDPM_CHECK(!skips_.empty(), "unit {} has no skip to take", units_.size());
  const int64_t channels = skips_.back();
  skips_.pop_back();
  return channels;
}

std::vector<std::unique_ptr<Unit>> UnitBuilder::finish() {
  add<OutputUnit>(c_, predicts_);
  return std::move(units_);
}

}  // namespace ddpm::nn
