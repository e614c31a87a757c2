#include "engine/replicas.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/odd_ranks.h"

namespace ddpm::engine {
namespace {

constexpr int64_t kFingerprintBlock = int64_t{1} << 20;

/// Fingerprint of a flat tensor of any type and device, read block by block.
uint64_t fingerprint_of(const at::Tensor& flat, uint64_t first_index) {
  if (!flat.is_cpu()) return fingerprint_on_device(flat, first_index);
  uint64_t sum = 0;
  for (int64_t begin = 0; begin < flat.numel(); begin += kFingerprintBlock) {
    const at::Tensor block = flat.narrow(0, begin, std::min(kFingerprintBlock, flat.numel() - begin)).to(at::kFloat);
    sum += fingerprint({block.const_data_ptr<float>(), static_cast<std::size_t>(block.numel())},
                       first_index + static_cast<uint64_t>(begin));
  }
  return sum;
}

/// Fingerprint of what data-parallel ranks hold alike: the working weights where each has them whole, and the tensors
/// that are not trained.
uint64_t fingerprint_of_common(const TrainingState& state) {
  const bool whole_weights = !state.arena.sharding().cuts_weights();
  uint64_t sum = whole_weights ? fingerprint_of(state.arena.working(), 0) : 0;
  auto index = static_cast<uint64_t>(state.arena.working().numel());
  for (const FixedTensor& tensor : state.fixed) {
    for (const at::Tensor& held : {tensor.value, tensor.working}) {
      sum += fingerprint_of(held.flatten(), index);
      index += static_cast<uint64_t>(held.numel());
    }
  }
  return sum;
}

/// Fingerprint of what ranks with other channels of the same blocks hold alike: the working weights that are not cut.
uint64_t fingerprint_of_uncut(const TrainingState& state) {
  uint64_t sum = 0;
  uint64_t index = 0;
  for (const parallel::ArenaEntry& entry : state.arena.entries()) {
    if (entry.split.cuts()) continue;
    sum += fingerprint_of(state.arena.working().narrow(0, entry.range.begin, entry.range.size()), index);
    index += static_cast<uint64_t>(entry.range.size());
  }
  return sum;
}

/// In stage 3 nobody has them whole.
bool has_uncut(const TrainingState& state, const layout::Mesh& mesh) {
  return mesh.degree(layout::Axis::tensor) > 1 && !state.arena.sharding().cuts_weights();
}

uint64_t fingerprint_of_share(const TrainingState& state) {
  uint64_t sum = 0;
  uint64_t index = 0;
  const auto add = [&](const parallel::StateBuffer& buffer) {
    for (const at::Tensor& piece : buffer) {
      sum += fingerprint_of(piece, index);
      index += static_cast<uint64_t>(piece.numel());
    }
  };
  add(state.arena.master());
  add(state.exp_avg);
  add(state.exp_avg_sq);
  for (const parallel::StateBuffer& average : state.ema) add(average);
  if (state.outer) {
    add(state.outer->anchor);
    add(state.outer->momentum);
  }
  return sum;
}

}  // namespace

uint64_t fingerprint(std::span<const float> values, uint64_t first_index) {
  uint64_t sum = 0;
  uint64_t odd = 2 * first_index + 1;
  for (const float value : values) {
    sum += std::bit_cast<uint32_t>(value) * odd;
    odd += 2;
  }
  return sum;
}

uint64_t fingerprint_on_device(const at::Tensor& flat, uint64_t first_index) {
  at::Tensor sum = at::zeros({}, flat.options().dtype(at::kLong));
  for (int64_t begin = 0; begin < flat.numel(); begin += kFingerprintBlock) {
    const int64_t count = std::min(kFingerprintBlock, flat.numel() - begin);
    const at::Tensor bits = flat.narrow(0, begin, count).to(at::kFloat).view(at::kInt).to(at::kLong);
    const auto first = static_cast<int64_t>(first_index) + begin;
    const at::Tensor odd = at::arange(2 * first + 1, 2 * (first + count), 2, sum.options());
    sum.add_(bits.bitwise_and(int64_t{0xFFFFFFFF}).mul(odd).sum());
  }
  return static_cast<uint64_t>(sum.item<int64_t>());
}

std::vector<int64_t> odd_ranks(const layout::Mesh& mesh, layout::Axes axes, std::span<const std::string> held) {
  std::map<int64_t, std::vector<int64_t>> groups;
  for (int64_t rank = 0; rank < std::ssize(held); ++rank) groups[mesh.group(rank, axes)].push_back(rank);
  std::vector<int64_t> odd;
  for (const auto& [group, ranks] : groups)
    std::ranges::copy(comm::find_odd_ranks(ranks, held).ranks, std::back_inserter(odd));
  return odd;
}

bool has_replicas(const TrainingState& state, const layout::Mesh& mesh) {
  // Which tensors are fixed differs between the stages of a pipeline, and all ranks have to answer alike.
  const bool may_be_fixed = !state.fixed.empty() || mesh.degree(layout::Axis::pipeline) > 1;
  return mesh.degree(layout::kReplicas) > 1 ||
         (mesh.degree(layout::kGradients) > 1 && (!state.arena.sharding().cuts_weights() || may_be_fixed)) ||
         has_uncut(state, mesh);
}

void compare_replicas(const TrainingState& state, const layout::Mesh& mesh, comm::Communicator& world) {
  if (!has_replicas(state, mesh)) return;
  const at::NoGradGuard no_grad;
  const bool same_shares = mesh.degree(layout::kReplicas) > 1;
  const std::vector<std::string> shares =
      comm::all_gather(world, same_shares ? std::to_string(fingerprint_of_share(state)) : "");
  const std::vector<std::string> common = comm::all_gather(world, std::to_string(fingerprint_of_common(state)));
  std::vector<int64_t> odd = odd_ranks(mesh, layout::kReplicas, shares);
  std::ranges::copy(odd_ranks(mesh, layout::kGradients, common), std::back_inserter(odd));
  if (has_uncut(state, mesh)) {
    const std::vector<std::string> uncut = comm::all_gather(world, std::to_string(fingerprint_of_uncut(state)));
    std::ranges::copy(odd_ranks(mesh, layout::Axis::tensor, uncut), std::back_inserter(odd));
  }
  std::ranges::sort(odd);
  odd.erase(std::unique(odd.begin(), odd.end()), odd.end());
  comm::agree(world, [&] {
    if (odd.empty()) return;
    throw base::NumericsError(
        "step {}: replicas of the state have diverged: rank {} differs from the others (of "
        "two, either may be wrong). No checkpoint contains the difference; look at the memory of those nodes",
        state.progress.step, fmt::join(odd, ", rank "));
  });
}

void compare_before_saving(const TrainingState& state, const layout::Mesh& mesh, comm::Communicator& world,
                           int64_t every) {
  if (every > 0 && state.progress.step % every != 0) compare_replicas(state, mesh, world);
}

}  // namespace ddpm::engine
