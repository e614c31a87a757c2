#include "nn/attention_block.h"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "nn/ops/as_on_cuda.h"
#include "nn/ops/attention.h"
#include "nn/ops/row_order.h"

namespace ddpm::nn {

AttentionBlock::AttentionBlock(const std::string& prefix, const AttentionOptions& options)
    : options_(options),
      heads_(options.channels / options.head_dim),
      to_q_(prefix + ".to_q", options.channels, heads_ * options.head_dim, Cut::outputs(heads_)),
      to_k_(prefix + ".to_k", options.channels, heads_ * options.head_dim, Cut::outputs(heads_)),
      to_v_(prefix + ".to_v", options.channels, heads_ * options.head_dim, Cut::outputs(heads_)),
      to_out_(prefix + ".to_out.0", heads_ * options.head_dim, options.channels, Cut::inputs(heads_)) {
  if (options.norm) group_norm_.emplace(prefix + ".group_norm", options.channels, *options.norm);
}

/// The branches are freed once their sum exists, before attention needs memory.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
NormalisedSum AttentionBlock::normalise(Branches branches, const Partition& partition) const {
  if (group_norm_) return group_norm_->forward(branches, partition);
  const at::Tensor x = joined(branches);
  return {.y = x, .x = x};
}

at::Tensor AttentionBlock::forward(Branches branches, const ForwardContext& context) const {
  const auto [normalised, x] = normalise(std::move(branches), context.partition);
  const int64_t n = x.size(0);
  const int64_t channels = x.size(1);
  // Channels-last: pixels become rows of a matrix without a copy.
  const at::Tensor rows = normalised.permute({0, 2, 3, 1}).reshape({n, x.size(2) * x.size(3), channels});
  const Partition& partition = context.partition;
  at::Tensor attended;
  const bool whole = partition.tiles() == 1 && partition.channel_parts() == 1;
  if (options_.in_any_order && rows.is_cpu() && whole && !at::GradMode::is_enabled()) {
    const SortedRows sorted = sort_rows(rows);
    attended = at_former_places(attend(sorted.rows, partition), sorted.places);
  } else {
    attended = attend(rows, partition);
  }
  const at::Tensor y = attended.view({n, x.size(2), x.size(3), channels}).permute({0, 3, 1, 2}) + x;
  return options_.output_scale == 1.0 ? y : y / options_.output_scale;
}

at::Tensor AttentionBlock::attend(const at::Tensor& rows, const Partition& partition) const {
  const auto [queries, keys, values] = project(partition.to_channel_parts(rows), partition);
  const int64_t heads_here = heads_ / to_q_.weight().split.parts;
  const auto mix = for_inference_ && !at::GradMode::is_enabled() ? attention_inference : nn::attention;
  return to_out_.forward(mix(queries, partition.gather(keys), partition.gather(values), heads_here), partition);
}

/// On CPUs, whose cores three products fill as well as one, our attention wants its inputs contiguous.
std::array<at::Tensor, 3> AttentionBlock::project(const at::Tensor& rows, const Partition& partition) const {
  const bool adapted = to_q_.adapter() != nullptr || to_k_.adapter() != nullptr || to_v_.adapter() != nullptr;
  if (is_on_gpu(rows) && !adapted) return joint_linear(rows, {to_q_.weights(), to_k_.weights(), to_v_.weights()});
  return {to_q_.forward(rows, partition), to_k_.forward(rows, partition), to_v_.forward(rows, partition)};
}

graph::Value AttentionBlock::record(graph::Value x, graph::Graph& g) const {
  const graph::Value rows = g.add(graph::Rows{group_norm_ ? group_norm_->record(x, {}, g) : x});
  const graph::Value q = to_q_.record(rows, g);
  const graph::Value k = to_k_.record(rows, g);
  const graph::Value mixed = g.add(graph::Attend{q, k, to_v_.record(rows, g), heads_, options_.head_dim});
  const graph::Value y = g.add(graph::Add{g.add(graph::Pixels{to_out_.record(mixed, g), x}), x});
  return options_.output_scale == 1.0 ? y : g.add(graph::Affine{y, 1.0 / options_.output_scale, 0.0});
}

Operations AttentionBlock::operations(const ImageSize& x) const {
  const double positions = x.pixels();
  // Queries times keys, and their weights times values.
  const double products = 4.0 * positions * positions * static_cast<double>(to_q_.weight().shape.front());
  Operations operations{.all = products, .attention = products, .backward = 2.0 * products};
  for (const Linear* linear : {&to_q_, &to_k_, &to_v_, &to_out_}) operations += linear->operations(positions);
  return operations;
}

void AttentionBlock::collect(OwnedLayers& out) {
  if (group_norm_) group_norm_->collect(out);
  to_q_.collect(out);
  to_k_.collect(out);
  to_v_.collect(out);
  to_out_.collect(out);
}

}  // namespace ddpm::nn
