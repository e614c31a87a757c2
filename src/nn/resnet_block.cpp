#include "nn/resnet_block.h"

#include <utility>

#include "nn/dropout.h"
#include "nn/ops/as_on_cuda.h"

namespace ddpm::nn {
namespace {

GroupNormOptions second_norm(const ResnetOptions& o) {
  GroupNormOptions norm = o.norm;
  norm.groups = o.groups_out.value_or(o.norm.groups);
  return norm;
}

// The two halves of a scale_shift projection belong to the same channels: no contiguous cut keeps them together.
Cut time_projection_cut(const ResnetOptions& o) { return o.scale_shift ? Cut{} : Cut::outputs(second_norm(o).groups); }

/// A tile's convolution adds its bias where it adds its border.
bool adds_biases_later(const at::Tensor& h, const Partition& partition) {
  return computes_as_on_cuda(h) && partition.tiles() == 1;
}

}  // namespace

ResnetBlock::ResnetBlock(const std::string& prefix, const ResnetOptions& options)
    : options_(options),
      norm1_(prefix + ".norm1", options.in, options.norm),
      conv1_(prefix + ".conv1", options.in, options.out, {.dimensions = options.dimensions},
             Cut::outputs(second_norm(options).groups)),
      time_emb_proj_(prefix + ".time_emb_proj", options.time_embedding_dim,
                     options.scale_shift ? 2 * options.out : options.out, time_projection_cut(options)),
      norm2_(prefix + ".norm2", options.out, second_norm(options), Cut::outputs(second_norm(options).groups)),
      conv2_(prefix + ".conv2", options.out, options.out, {.dimensions = options.dimensions},
             Cut::inputs(second_norm(options).groups)) {
  if (options.shortcut || options.in != options.out) {
    conv_shortcut_.emplace(prefix + ".conv_shortcut", options.in, options.out, pointwise(options.dimensions));
  }
}

Branches ResnetBlock::forward(const at::Tensor& x, const at::Tensor& temb, const ForwardContext& context) const {
  const Partition& partition = context.partition;
  const auto resampled = [&](const at::Tensor& y) {
    return resample(y, options_.resampling, options_.filter, partition);
  };
  auto [h, head] = norm1_.forward({.addend = x}, partition);
  h = partition.to_channel_parts(h);
  Modulation modulation = this->modulation(temb, partition);
  if (adds_biases_later(h, partition) && !options_.scale_shift) {
    // The norm adds the bias with the time embedding: one pass over the images less in either direction.
    modulation.shift_before = modulation.shift_before + conv1_.bias();
    h = conv1_.forward_unbiased(resampled(h), partition);
  } else {
    h = repeats() ? conv1_.forward_repeated(h, partition) : conv1_.forward(resampled(h), partition);
  }
  h = norm2_.forward(h, modulation, partition);
  h = dropout(h, options_.dropout, options_.dropout_layer, context);
  const Branches branches = this->branches(h, resampled(head), partition);
  return options_.output_scale == 1.0 ? branches : Branches{.addend = joined(branches) / options_.output_scale};
}

/// The second convolution comes last, because recomputing in backward ends where nothing is saved any more: before it.
Branches ResnetBlock::branches(const at::Tensor& h, const at::Tensor& head, const Partition& partition) const {
  if (!adds_biases_later(h, partition) || conv2_.weight().split.cuts()) {
    const at::Tensor residual = conv_shortcut_ ? conv_shortcut_->forward(head, partition) : head;
    return {.addend = conv2_.forward(h, partition), .residual = residual};
  }
  // What sums the branches up adds the biases of both.
  at::Tensor bias = conv2_.bias();
  at::Tensor residual = head;
  if (conv_shortcut_) {
    bias = bias + conv_shortcut_->bias();
    residual = conv_shortcut_->forward_unbiased(head, partition);
  }
  return {.addend = conv2_.forward_unbiased(h, partition), .residual = residual, .bias = bias};
}

graph::Value ResnetBlock::record(graph::Value x, graph::Value temb, graph::Graph& g) const {
  const auto resampled = [&](graph::Value y) {
    return graph::record_resampled(g, y, options_.resampling, options_.filter, options_.in);
  };
  graph::Value h = conv1_.record(resampled(norm1_.record(x, {}, g)), g);
  h = conv2_.record(norm2_.record(h, record_modulation(temb, g), g), g);
  graph::Value residual = resampled(x);
  if (conv_shortcut_) residual = conv_shortcut_->record(residual, g);
  const graph::Value y = g.add(graph::Add{h, residual});
  return options_.output_scale == 1.0 ? y : g.add(graph::Affine{y, 1.0 / options_.output_scale, 0.0});
}

graph::Modulation ResnetBlock::record_modulation(graph::Value temb, graph::Graph& g) const {
  const graph::Value projected = time_emb_proj_.record(temb, g);
  if (!options_.scale_shift) return {.shift_before = projected};
  const graph::Value scale = g.add(graph::Half{projected, 0});
  return {.scale = scale, .shift_after = g.add(graph::Half{projected, 1})};
}

bool ResnetBlock::repeats() const {
  return options_.resampling == Resampling::up && options_.filter == ResamplingFilter::box;
}

void ResnetBlock::prepare_for_inference() {
  conv1_.prepare_for_inference(repeats());
  conv2_.prepare_for_inference(/*repeated=*/false);
}

Modulation ResnetBlock::modulation(const at::Tensor& temb, const Partition& partition) const {
  if (!options_.scale_shift) {
    return {.shift_before = time_emb_proj_.forward(partition.to_channel_parts(temb), partition)};
  }
  auto [scale, shift] = halves(time_emb_proj_.forward(temb, partition), /*cut=*/true, partition);
  return {.scale = std::move(scale), .shift_after = std::move(shift)};
}

Operations ResnetBlock::operations(const ImageSize& x) const {
  const ImageSize result = x.resampled(options_.resampling);
  Operations operations = conv1_.operations(result);
  operations += time_emb_proj_.operations(1);
  operations += conv2_.operations(result);
  if (conv_shortcut_) operations += conv_shortcut_->operations(result);
  return operations;
}

void ResnetBlock::collect(OwnedLayers& out) {
  norm1_.collect(out);
  conv1_.collect(out);
  time_emb_proj_.collect(out);
  norm2_.collect(out);
  conv2_.collect(out);
  if (conv_shortcut_) conv_shortcut_->collect(out);
}

}  // namespace ddpm::nn
