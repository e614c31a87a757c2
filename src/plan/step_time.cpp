#include "plan/step_time.h"

#include <algorithm>

#include "plan/memory.h"

namespace ddpm::plan {
namespace {

/// How many of `ranks`, which ascend, each node has that has any of them; 1 where one has more than another.
int64_t ranks_on_each_node(const std::vector<int64_t>& ranks, int64_t ranks_per_node) {
  int64_t each = 0;
  for (auto first = ranks.begin(); first != ranks.end();) {
    const int64_t end = (*first / ranks_per_node + 1) * ranks_per_node;
    const auto last = std::find_if(first, ranks.end(), [end](int64_t rank) { return rank >= end; });
    if (each != 0 && last - first != each) return 1;
    each = last - first;
    first = last;
  }
  return each;
}

/// The groups along `axes`, as the one lies on the nodes that has fewest ranks on each: all wait for the slowest. Where
/// it has more ranks on one node than on another, all that it says goes over the network.
Group group_along(const Arrangement& a, layout::Axes axes) {
  const layout::Mesh mesh = a.mesh();
  const int64_t size = mesh.degree(axes);
  if (a.nodes == 1 || size == 1) return {.nodes = 1, .local = size};
  int64_t local = size;
  std::vector<int64_t> far(static_cast<std::size_t>(a.nodes));  // ranks of each node that talk to others
  for (int64_t group = 0; group < mesh.size() / size; ++group) {
    const std::vector<int64_t> ranks = mesh.ranks(group, axes);
    if (ranks.front() / a.ranks_per_node == ranks.back() / a.ranks_per_node) continue;
    local = std::min(local, ranks_on_each_node(ranks, a.ranks_per_node));
    for (const int64_t rank : ranks) ++far[static_cast<std::size_t>(rank / a.ranks_per_node)];
  }
  return {.nodes = size / local, .local = local, .sharers = std::max<int64_t>(1, std::ranges::max(far) / local)};
}

struct Volumes {
  int64_t segments;
  int64_t gradient_bytes;  ///< once over the whole buffer
  int64_t weight_bytes;
};

/// Stages 1 to 3: gradients are scattered to their owners, weights gathered from them.
std::vector<Traffic> sharded_traffic(const Volumes& v, const Arrangement& a) {
  const int64_t steps = a.accumulation_steps();
  const Group shard = group_along(a, layout::Axis::shard);
  const int64_t reductions = a.parallelism.zero_stage == 1 ? 1 : steps;
  const int64_t gathers = a.parallelism.zero_stage == 3 ? 2 * steps : 1;
  const int64_t agreements =
      a.shard_size() == 1 ? reductions : 1;  // with nothing to scatter, whole segments are summed
  std::vector<Traffic> lines;
  lines.push_back({.kind = CollectiveKind::reduce_scatter,
                   .what = "gradients",
                   .group = shard,
                   .calls = reductions * v.segments,
                   .buffer_bytes = reductions * v.gradient_bytes,
                   .hidden_by_backward = true,
                   .hideable = static_cast<double>(reductions) / static_cast<double>(steps)});
  lines.push_back({.kind = CollectiveKind::all_reduce,
                   .what = "gradient parts",
                   .group = group_along(a, layout::kReplicas),
                   .calls = agreements * v.segments,
                   .buffer_bytes = agreements * v.gradient_bytes / a.shard_size(),
                   .hidden_by_backward = true,
                   .hideable = static_cast<double>(agreements) / static_cast<double>(steps)});
  lines.push_back({.kind = CollectiveKind::all_gather,
                   .what = "weights",
                   .group = shard,
                   .calls = gathers * v.segments,
                   .buffer_bytes = gathers * v.weight_bytes,
                   .hidden_by_forward = a.parallelism.zero_stage == 3,
                   .hidden_by_backward = a.parallelism.zero_stage == 3});
  return lines;
}

/// α and β of one ring among `ranks` that passes `bytes`.
double ring_seconds(int64_t ranks, double calls, double bytes, double latency_us, double gb_per_s) {
  if (ranks <= 1) return 0.0;
  const auto n = static_cast<double>(ranks);
  return calls * (n - 1.0) * latency_us * 1e-6 + (n - 1.0) / n * bytes / (gb_per_s * 1e9);
}

/// Bytes that the update reads and writes of each element: weights, gradient and its norm, moments, averages.
double update_bytes(const Arrangement& a) {
  const double elements = 8.0 + 8.0 + 16.0 + 8.0 * static_cast<double>(a.averages);
  return elements + (a.mixed_precision ? 2.0 : 0.0);
}

/// Clipping, AdamW and averages are bound by memory. An offloaded update passes over the host's memory while gradients
/// and weights cross the link, one in each direction.
double update_seconds(int64_t elements, const Arrangement& a, const Machine& machine) {
  const auto count = static_cast<double>(elements);
  const double in_memory = update_bytes(a) * count / 1e9;
  if (a.parallelism.offload == layout::Offload::none) return in_memory / machine.memory_gb_per_s;
  return std::max(in_memory / machine.host_gb_per_s, 4.0 * count / 1e9 / machine.host_link_gb_per_s);
}

/// Returns the communication that remains visible when each line runs beside the computing that may hide it. Nothing
/// hides the last bucket of a backward pass.
double exposed_seconds(const std::vector<Traffic>& lines, const StepTime& time, const Arrangement& a,
                       const Machine& machine) {
  double exposed = 0.0;
  double forward = time.forward;
  double backward = time.backward;
  for (const Traffic& line : lines) {
    const double seconds = seconds_of(line, machine);
    if (!a.overlap || (!line.hidden_by_forward && !line.hidden_by_backward)) {
      exposed += seconds;
      continue;
    }
    const double last = seconds / static_cast<double>(std::max<int64_t>(1, line.calls));
    double window = line.hideable * ((line.hidden_by_forward ? forward : 0.0) + backward);
    window = std::min(window, seconds - last);
    const double from_backward = std::min(window, backward);
    backward -= from_backward;
    if (line.hidden_by_forward) forward -= window - from_backward;
    exposed += seconds - window;
  }
  return exposed;
}

/// A pipeline fills and empties stage by stage: what the first micro-batch gives, and the gradients of the last one,
/// are waited for between any two.
double fill_seconds(const ModelSizes& model, const Arrangement& a, const Machine& machine) {
  const Traffic hop{.kind = CollectiveKind::exchange,
                    .what = "activations between stages",
                    .group = group_along(a, layout::Axis::pipeline),
                    .calls = 2,
                    .buffer_bytes = model.bytes_for(a.parallelism.micro_size, model.hop_bytes)};
  return static_cast<double>(a.parallelism.pipeline_size - 1) * seconds_of(hop, machine);
}

/// Adds what the tiles of an image send each other.
void add_tiles(const ModelSizes& model, const Arrangement& a, std::vector<Traffic>& lines) {
  const Group tiles = group_along(a, layout::Axis::spatial);
  const int64_t images = a.images_of_rank();
  lines.push_back({.kind = CollectiveKind::exchange,
                   .what = "borders of tiles",
                   .group = tiles,
                   .calls = a.accumulation_steps() * model.border_messages,
                   .buffer_bytes = model.bytes_for(images, model.border_bytes),
                   .hidden_by_forward = true,
                   .hidden_by_backward = true});
  lines.push_back({.kind = CollectiveKind::exchange,
                   .what = "other pixels of tiles",
                   .group = tiles,
                   .calls = a.accumulation_steps() * (model.tile_messages - model.border_messages),
                   .buffer_bytes = model.bytes_for(images, model.tile_bytes - model.border_bytes)});
}

}  // namespace

int64_t Traffic::sent_bytes() const {
  if (kind == CollectiveKind::exchange) return buffer_bytes;
  const int64_t n = group.size();
  const int64_t once = n > 1 ? buffer_bytes / n * (n - 1) : 0;
  return kind == CollectiveKind::all_reduce ? 2 * once : once;
}

std::vector<Traffic> traffic_of(const ModelSizes& model, const Arrangement& a) {
  const layout::ShardLayout cut = shard_layout(model, a);
  const Volumes v{.segments = static_cast<int64_t>(cut.segments().size()),
                  .gradient_bytes = a.wire_bytes() * cut.size(),
                  .weight_bytes = a.weight_bytes() * cut.size()};
  std::vector<Traffic> lines;
  if (a.parallelism.zero_stage == 0) {
    lines.push_back({.kind = CollectiveKind::all_reduce,
                     .what = "gradients",
                     .group = group_along(a, layout::kGradients),
                     .calls = v.segments,
                     .buffer_bytes = v.gradient_bytes,
                     .hidden_by_backward = true,
                     .hideable = 1.0 / static_cast<double>(std::max<int64_t>(1, a.accumulation_steps()))});
  } else {
    lines = sharded_traffic(v, a);
  }
  if (a.parallelism.tiles > 1) add_tiles(model, a, lines);
  if (a.islands() > 0) {
    lines.push_back(
        {.kind = CollectiveKind::all_reduce,
         .what = "weights of copies, a share",
         .group = group_along(a, layout::Axis::island),
         .calls = 1,
         .buffer_bytes = static_cast<int64_t>(sizeof(float)) * cut.shard_size() / a.parallelism.sync_every});
  }
  if (a.parallelism.tensor_size > 1) {
    lines.push_back({.kind = CollectiveKind::all_reduce,
                     .what = "channels of blocks",
                     .group = group_along(a, layout::Axis::tensor),
                     .calls = a.accumulation_steps() * model.channel_sums,
                     .buffer_bytes = model.bytes_for(a.images_of_rank(), model.channel_bytes)});
  }
  if (a.parallelism.pipeline_size > 1) {
    lines.push_back({.kind = CollectiveKind::exchange,
                     .what = "activations between stages",
                     .group = group_along(a, layout::Axis::pipeline),
                     .calls = a.accumulation_steps() * model.stage_messages,
                     .buffer_bytes = model.bytes_for(a.images_of_rank(), model.stage_bytes)});
  }
  std::erase_if(lines, [](const Traffic& line) { return line.group.size() <= 1; });
  return lines;
}

double seconds_of(const Traffic& traffic, const Machine& machine) {
  const Group& group = traffic.group;
  const auto calls = static_cast<double>(traffic.calls);
  const auto bytes = static_cast<double>(traffic.buffer_bytes);
  if (traffic.kind == CollectiveKind::exchange) {
    // Some tile has neighbours beyond its node, if there are any, and all wait for it.
    const bool far = group.nodes > 1;
    const double latency = far ? machine.network_latency_us : machine.node_latency_us;
    const double rate = far ? machine.network_gb_per_s / static_cast<double>(group.sharers) : machine.node_gb_per_s;
    return calls * latency * 1e-6 + bytes / (rate * 1e9);
  }
  // The g-th parts of a node's g ranks pass its links together, beside those of other groups.
  const double shared = bytes * static_cast<double>(group.sharers);
  const double once = ring_seconds(group.local, calls, bytes, machine.node_latency_us, machine.node_gb_per_s) +
                      ring_seconds(group.nodes, calls, shared, machine.network_latency_us, machine.network_gb_per_s);
  return traffic.kind == CollectiveKind::all_reduce ? 2.0 * once : once;
}

StepTime step_time(const ModelSizes& model, const Arrangement& a, const Machine& machine) {
  const double rate = 1e12 * (a.mixed_precision ? machine.tflops_half : machine.tflops);
  // The others wait for the rank with the largest tile, so its part of an image counts.
  const double images =
      model.tile_share * static_cast<double>(a.parallelism.global_size) / static_cast<double>(a.data_parallel_size());
  double again = 0.0;
  if (model.checkpointing == parallel::ActivationCheckpointing::blocks) again = model.forward_flops;
  if (model.checkpointing == parallel::ActivationCheckpointing::attention) again = model.attention_flops;
  const layout::ShardLayout cut = shard_layout(model, a);
  StepTime time;
  time.forward = images * (model.forward_flops + model.mean_flops) / rate;
  time.backward = images * (model.backward_flops + again) / rate;
  time.bubble = (time.forward + time.backward) * a.bubble() / (1.0 - a.bubble());
  if (a.parallelism.pipeline_size > 1) time.bubble += fill_seconds(model, a, machine);
  time.update = update_seconds(cut.shard_size(), a, machine);
  const std::vector<Traffic> lines = traffic_of(model, a);
  for (const Traffic& line : lines) time.communication += seconds_of(line, machine);
  time.exposed = exposed_seconds(lines, time, a, machine);
  return time;
}

}  // namespace ddpm::plan
