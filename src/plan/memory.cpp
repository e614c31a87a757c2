#include "plan/memory.h"

#include <algorithm>
#include <array>
#include <bit>

#include "denoise/batch_buffer.h"
#include "nn/ops/winograd_scratch.h"
#include "parallel/config.h"
#include "parallel/offload_bytes.h"
#include "run/snapshot_blocks.h"

namespace ddpm::plan {
namespace {

constexpr int64_t kFloat = 4;

/// Elements of the largest `neighbours` segments that follow each other.
int64_t largest(const layout::ShardLayout& cut, int64_t neighbours) {
  const auto& segments = cut.segments();
  int64_t most = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::size_t last = std::min(segments.size() - 1, i + static_cast<std::size_t>(neighbours) - 1);
    most = std::max(most, segments[last].end - segments[i].begin);
  }
  return most;
}

/// Gradients on their way in stages 2 and 3: a segment that backward fills, and two that wait for the network or,
/// without overlap, none; with their two-byte copies.
int64_t staging(const layout::ShardLayout& cut, const Arrangement& a) {
  const int64_t waiting = a.overlap ? 2 : 0;
  return kFloat * largest(cut, 1 + waiting) + (a.compression() ? a.wire_bytes() * largest(cut, 1) : 0);
}

/// Gradients that wait on a GPU to be moved with others, beside the last one.
int64_t waiting(const ModelSizes& model, const Arrangement& a) {
  return std::min(static_cast<int64_t>(parallel::kWaitingGradientBytes),
                  a.weight_bytes() * (model.elements() - model.largest_parameter));
}

int64_t buffers(const ModelSizes& model, const layout::ShardLayout& cut, const Arrangement& a) {
  // A gradient on its way into the buffer, and what convolutions make of weight and gradient: copies in other orders,
  // or on CPUs either of them at Winograd's points.
  int64_t bytes = a.weight_bytes() * model.largest_parameter;
  bytes +=
      a.on_device ? 2 * a.weight_bytes() * model.largest_parameter : nn::winograd_weight_bytes(model.largest_parameter);
  if (a.on_device && !a.parallelism.reproducible) bytes += waiting(model, a);
  if (a.parallelism.zero_stage <= 1 && a.compression()) bytes += a.wire_bytes() * largest(cut, 2);
  if (a.parallelism.zero_stage >= 2) bytes += staging(cut, a);
  if (a.parallelism.zero_stage == 3) bytes += a.weight_bytes() * largest(cut, 2);
  if (a.parallelism.offload != layout::Offload::none && !a.on_device)
    bytes +=
        kFloat * static_cast<int64_t>(parallel::kOffloadChunks) * std::min(cut.shard_size(), parallel::kOffloadChunk);
  if (a.parallelism.reproducible) {
    const auto steps = static_cast<uint64_t>(std::max<int64_t>(1, a.accumulation_steps()));
    bytes += kFloat * cut.size() * static_cast<int64_t>(std::bit_width(steps));  // 1 + log2(steps)
  }
  return bytes;
}

const ActivationBytes& activations_of(const ModelSizes& model, const Arrangement& a) {
  const int64_t micro_batches = std::clamp<int64_t>(a.accumulation_steps(), 1, std::ssize(model.activations));
  return model.activations[static_cast<std::size_t>(micro_batches - 1)];
}

/// Stored micro-batches where the model computes. A GPU has one more than stages work on, and a recorded step keeps all
/// of its own.
int64_t batches(const Arrangement& a) {
  if (!a.on_device) return 1;
  const int64_t worked_on = std::clamp<int64_t>(a.accumulation_steps(), 1, a.parallelism.pipeline_size);
  const bool recorded =
      a.parallelism.tiles == 1 && a.parallelism.pipeline_size == 1 && a.parallelism.offload == layout::Offload::none;
  return worked_on + 1 + (recorded ? a.accumulation_steps() : 0);
}

/// Float32 images beside the model: read, normalised, noise, noisy, prediction, target, and the loss's own. A point of
/// a grid has its mean, deviation and the deviation's reciprocal where the model computes, and two of them on the host.
int64_t images(const ModelSizes& model, const Arrangement& a) {
  constexpr int64_t kCopies = 8;
  const int64_t on_host = a.on_device ? 0 : a.read_ahead_bytes + a.held_bytes + 2 * kFloat * model.grid_points;
  const int64_t grids = 3 * kFloat * model.grid_points;
  return a.parallelism.micro_size * (kCopies * kFloat * model.image_elements + batches(a) * model.image_bytes) + grids +
         on_host;
}

/// Elements of the longest run of a rank's share without gaps: parts of neighbouring segments do not touch.
int64_t longest_run(const layout::ShardLayout& cut) {
  if (cut.parts() == 1) return cut.size();
  int64_t longest = 0;
  for (std::size_t segment = 0; segment < cut.segments().size(); ++segment) {
    longest = std::max(longest, cut.part(segment, 0).size());
  }
  return longest;
}

/// `device` has all but what is in the host's memory; a snapshot takes `share` bytes. Each pinned part is counted by
/// the header of what allocates it. A few KiB of counters are left out.
HostMemory host_memory(const ModelSizes& model, const layout::ShardLayout& cut, const Arrangement& a,
                       const Memory& device, int64_t share) {
  const bool on_device = a.parallelism.offload == layout::Offload::none;
  const std::array batch{a.parallelism.micro_size * model.image_bytes};
  const parallel::OffloadedState offloaded{.offload = a.parallelism.offload,
                                           .elements = cut.shard_size(),
                                           .longest = longest_run(cut),
                                           .weight_bytes = a.weight_bytes()};
  HostMemory host;
  host.batches = denoise::staged_bytes(denoise::BatchBuffer(batch), a.parallelism.pipeline_size);
  host.images = a.read_ahead_bytes + a.held_bytes + 2 * kFloat * model.grid_points;
  host.weights = parallel::offload_weight_bytes(offloaded);
  host.state = on_device ? 0 : host.weights + device.moments + device.averages;
  host.chunks = parallel::offload_chunk_bytes(offloaded);
  host.snapshot = on_device ? run::SnapshotBlocks::pinned_bytes(share, kFloat * model.largest_parameter) : share;
  host.pinned = host.batches + host.weights + host.chunks + (on_device ? host.snapshot : 0);
  return host;
}

/// Bytes of a checkpoint that a rank saves: its part of what its stage of a pipeline and its channels hold. The rank
/// with most is of the largest stage, and of the part of the channels that saves what is not cut (run::Replica). The
/// first island saves more than the others.
int64_t saved_share(const ModelSizes& model, const Arrangement& a, int64_t copies) {
  const layout::Parallelism& p = a.parallelism;
  const int64_t savers = a.ranks() / std::max<int64_t>(1, a.islands()) / p.pipeline_size / p.tensor_size;
  return kFloat * (copies * model.held_parameters / std::max<int64_t>(1, savers));
}

}  // namespace

std::array<std::pair<std::string_view, int64_t>, 11> Memory::by_kind() const {
  return {{{"weights", weights},
           {"master", master},
           {"gradients", gradients},
           {"moments", moments},
           {"averages", averages},
           {"buffers", buffers},
           {"activations", activations},
           {"workspace", workspace},
           {"images", images},
           {"process", process},
           {"saved", saved}}};
}

layout::ShardLayout shard_layout(const ModelSizes& model, const Arrangement& a) {
  if (a.parallelism.zero_stage == 3) return layout::ShardLayout::by_unit(model.unit_elements, a.shard_size());
  return layout::ShardLayout::by_size(model.elements(), layout::bucket_elements(a.bucket_mib),
                                      a.parallelism.zero_stage == 0 ? 1 : a.shard_size());
}

Memory memory_of(const ModelSizes& model, const Arrangement& a, int64_t process_bytes) {
  const layout::ShardLayout cut = shard_layout(model, a);
  const int64_t whole = cut.size();
  const int64_t part = cut.shard_size();
  const int64_t state = a.parallelism.zero_stage == 0 ? whole : part;
  const int64_t outer = a.islands() > 0 ? 2 : 0;  // anchor and momentum
  Memory memory;
  memory.weights =
      a.weight_bytes() * ((a.parallelism.zero_stage == 3 ? part : whole) + model.pretrained) + kFloat * model.constants;
  memory.master = a.has_master() ? kFloat * state : 0;
  memory.gradients = kFloat * (a.parallelism.zero_stage >= 2 ? part : whole);
  memory.moments = 2 * kFloat * state;
  memory.averages = kFloat * (a.averages + outer) * state;
  if (a.on_device && a.parallelism.offload != layout::Offload::none)
    memory.host = memory.master + memory.moments + memory.averages;
  if (a.on_device && a.parallelism.offload == layout::Offload::parameters) memory.host += a.weight_bytes() * part;
  memory.buffers = buffers(model, cut, a);
  const ActivationBytes& activations = activations_of(model, a);
  memory.activations = model.bytes_for(a.parallelism.micro_size, activations.kept);
  memory.workspace = static_cast<int64_t>(
      model.workspace_share * (static_cast<double>(activations.all) * static_cast<double>(a.parallelism.micro_size)) /
      static_cast<double>(model.activation_images));
  if (!a.on_device) memory.workspace += model.bytes_for(a.parallelism.micro_size, activations.float_copies);
  memory.images = images(model, a);
  memory.process = process_bytes;
  const int64_t share = saved_share(model, a, 3 + a.averages + outer);
  // A GPU brings one tensor at a time into the order in which it is written.
  memory.snapshot = a.on_device ? kFloat * model.largest_parameter : share;
  memory.saved = a.saves_while_training || a.on_device ? memory.snapshot : 0;
  if (a.on_device) memory.beside = host_memory(model, cut, a, memory, share);
  return memory;
}

}  // namespace ddpm::plan
