#include "device/gpu_choice.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ddpm::device {
namespace {

/// Augmenting paths (Kuhn 1955): a rank takes a GPU whose owner finds another one.
class Matching {
 public:
  explicit Matching(std::span<const SeenGpus> ranks) : ranks_(ranks), of_rank_(ranks.size(), 0) {}

  bool place(std::size_t rank) {
    asked_.clear();
    return move(rank);
  }
  [[nodiscard]] const std::vector<int>& of_rank() const { return of_rank_; }
  /// After place() has failed: GPUs that would have helped, which are no more than others hold that see no further
  /// ones.
  [[nodiscard]] GpuShortage shortage() const {
    const auto sees_no_others = [&](const SeenGpus& seen) {
      return std::ranges::all_of(seen, [&](const std::string& gpu) { return asked_.contains(gpu); });
    };
    return {.ranks = static_cast<std::size_t>(std::ranges::count_if(ranks_, sees_no_others)), .gpus = asked_.size()};
  }

 private:
  bool move(std::size_t rank) {
    const SeenGpus& seen = ranks_[rank];
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const std::size_t gpu = (rank + i) % seen.size();
      if (!asked_.insert(seen[gpu]).second) continue;
      const auto owner = owners_.find(seen[gpu]);
      if (owner != owners_.end() && !move(owner->second)) continue;
      owners_[seen[gpu]] = rank;
      of_rank_[rank] = static_cast<int>(gpu);
      return true;
    }
    return false;
  }

  std::span<const SeenGpus> ranks_;
  std::vector<int> of_rank_;
  std::map<std::string, std::size_t> owners_;
  std::set<std::string> asked_;
};

/// Ranks that see the same GPUs share these, neighbours the same one.
std::vector<int> shared_gpus(std::span<const SeenGpus> ranks) {
  std::vector<int> of_rank;
  of_rank.reserve(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto alike = static_cast<std::size_t>(std::ranges::count(ranks, ranks[rank]));
    const auto before = static_cast<std::size_t>(std::ranges::count(ranks.first(rank), ranks[rank]));
    const std::size_t gpus = ranks[rank].size();
    of_rank.push_back(static_cast<int>(gpus < alike ? before * gpus / alike : before));
  }
  return of_rank;
}

}  // namespace

SeenGpus seen_gpus(const DeviceFacts& facts) {
  SeenGpus seen;
  seen.reserve(facts.gpus.size());
  for (const DeviceFacts::Gpu& gpu : facts.gpus) seen.push_back(is_instance(gpu) ? "" : gpu.bus_id);
  return seen;
}

GpuChoice own_gpus(std::span<const SeenGpus> ranks) {
  Matching matching(ranks);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    DDPM_CHECK(!ranks[rank].empty(), "rank {} of a host sees no GPU", rank);
    if (ranks[rank].size() == 1 && !ranks[rank].front().empty()) matching.place(rank);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].size() > 1 && !matching.place(rank)) return {.shortage = matching.shortage()};
  }
  return {.of_rank = matching.of_rank()};
}

std::vector<int> choose_gpus(std::span<const SeenGpus> ranks, bool share) {
  GpuChoice choice = own_gpus(ranks);
  if (!choice.shortage) return std::move(choice.of_rank);
  if (share) return shared_gpus(ranks);
  const auto [too_many, gpus] = *choice.shortage;
  if (too_many < ranks.size() || std::ranges::count(ranks, ranks.front()) < std::ssize(ranks)) {
    throw base::ConfigError(
        "{} ranks of a host are shown {} of its GPUs together; show each rank all of them (srun --gpu-bind=none), or "
        "one; training may share GPUs, with parallel.share_gpus",
        too_many, gpus);
  }
  throw base::ConfigError(
      "{} ranks were started on a host with {} visible GPUs; "
      "start at most {} ranks per node, or show each rank one GPU; training may share GPUs, with parallel.share_gpus",
      too_many, gpus, gpus);
}

}  // namespace ddpm::device
