#include "plan/candidates.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"

namespace ddpm::plan {
namespace {

/// What more nodes must save to be worth it.
constexpr double kCheaper = 0.98;
/// What a higher stage must save, since predictions for different communication are no more accurate than this.
constexpr double kFaster = 0.9;

/// 1, 2, 4, ... below `nodes`, and `nodes`.
std::vector<int64_t> node_counts(int64_t nodes) {
  std::vector<int64_t> counts;
  for (int64_t n = 1; n < nodes; n *= 2) counts.push_back(n);
  counts.push_back(nodes);
  return counts;
}

/// The size that the keys set, where it divides the ranks. On fewer nodes dp_shard_size is kept, not dp_replicate_size.
std::optional<int64_t> given_shard_size(layout::Parallelism given, int64_t ranks) {
  if (!given.dp_shard_size && !given.dp_replicate_size) return std::nullopt;
  if (given.dp_shard_size) given.dp_replicate_size.reset();
  const std::vector<layout::Degree> degrees = given.degrees(ranks);
  if (!layout::Mesh::refusal(degrees, ranks).empty()) return std::nullopt;
  return layout::Mesh(degrees, ranks).degree(layout::Axis::shard);
}

/// Why `a` cannot have the islands of the given arrangement, which has a number of them; "" if it can.
std::string islands_refusal(const Arrangement& given, const Arrangement& a) {
  const int64_t islands = given.islands();
  const int64_t images = a.data_parallel_size();
  const layout::Parallelism& asked = a.parallelism;
  if (images % islands != 0) {
    return fmt::format(
        "parallel.sync_every = {}: {} cannot make {}, as the configuration has on all ranks, and their number decides "
        "what is trained; wanted: a multiple of {}",
        asked.sync_every, asked.viewers(a.ranks()), base::counted(islands, "island"), islands);
  }
  if (asked.zero_stage > 0 || images == islands) return "";
  return fmt::format(
      "parallel.sync_every = {} with parallel.zero_stage = 0: each of {} would be an island, and their number decides "
      "what is trained; wanted: {}, as the configuration has, by stage 1, 2 or 3",
      asked.sync_every, asked.viewers(a.ranks()), islands);
}

std::vector<int64_t> shard_sizes(const Request& request, const Arrangement& a) {
  const int64_t all = a.data_parallel_size();
  if (a.parallelism.sync_every > 0) return {all / request.given.islands()};
  if (a.parallelism.zero_stage == 0) return {1};
  if (const auto given = given_shard_size(request.given.parallelism, a.ranks())) return {*given};
  const int64_t in_node = a.ranks_per_node * all / a.ranks();  // that see different images
  if (in_node <= 1 || in_node == all || all % in_node != 0) return {all};
  return {in_node, all};
}

/// Whether ranks share the state in name alone.
bool shares_nothing(const Candidate& c) {
  return c.refusal.empty() && c.arrangement.parallelism.zero_stage > 0 && c.arrangement.shard_size() == 1;
}

/// Whether `b` is to be preferred to `a`, which has as many ranks and an equal stage.
bool better(const Candidate& b, const Candidate& a) {
  if (b.fits != a.fits) return b.fits;
  return b.fits ? b.time.total() < a.time.total() : b.memory.total() < a.memory.total();
}

Candidate refused(const Arrangement& arrangement, std::string why) {
  Candidate candidate;
  candidate.arrangement = arrangement;
  candidate.refusal = std::move(why);
  candidate.fits = false;
  return candidate;
}

/// Why no micro-batch lets ranks share the batch, or the configuration's islands; "" where one does.
std::string refusal_of(const Arrangement& given, const Arrangement& a) {
  if (std::string none = layout::islands_refusal(given.parallelism, given.ranks()); !none.empty()) return none;
  if (std::string uneven = layout::uneven_batch(a.parallelism, a.ranks()); !uneven.empty()) return uneven;
  return a.parallelism.sync_every > 0 ? islands_refusal(given, a) : "";
}

/// One of stages_of().
Candidate best_of_stage(const Request& request, Arrangement arrangement, int64_t stage) {
  layout::Parallelism& asked = arrangement.parallelism;
  asked.zero_stage = stage;
  if (stage < 3 && asked.offload == layout::Offload::parameters) asked.offload = layout::Offload::optimizer;
  asked.micro_size = fitting_micro_size(asked.global_size / arrangement.data_parallel_size(), asked.micro_size);
  if (std::string why = refusal_of(request.given, arrangement); !why.empty()) {
    return refused(arrangement, std::move(why));
  }
  std::optional<Candidate> best;
  for (const int64_t size : shard_sizes(request, arrangement)) {
    asked.dp_shard_size = size;
    if (request.given.parallelism.dp_replicate_size || asked.sync_every > 0) {
      asked.dp_replicate_size = arrangement.data_parallel_size() / size;
    }
    Candidate candidate = predict(request, arrangement);
    if (!best || better(candidate, *best)) best = std::move(candidate);
  }
  return std::move(*best);
}

}  // namespace

int64_t fitting_micro_size(int64_t share, int64_t micro_size) {
  int64_t micro = std::clamp<int64_t>(micro_size, 1, std::max<int64_t>(share, 1));
  while (share % micro != 0) --micro;
  return micro;
}

Candidate predict(const Request& request, const Arrangement& arrangement) {
  const std::vector<std::string> refusals = layout::refusals(arrangement.parallelism, arrangement.ranks());
  if (!refusals.empty()) return refused(arrangement, refusals.front());
  Candidate candidate;
  candidate.arrangement = arrangement;
  candidate.memory = memory_of(request.model, arrangement, request.process_bytes);
  candidate.time = step_time(request.model, arrangement, request.machine);
  candidate.traffic = traffic_of(request.model, arrangement);
  const int64_t needed = std::max(candidate.memory.total(), candidate.memory.saving());
  candidate.fits = !request.limit_bytes || needed <= *request.limit_bytes;
  return candidate;
}

std::vector<Candidate> stages_of(const Request& request, const Arrangement& arrangement) {
  std::vector<Candidate> stages;
  const int64_t most = arrangement.ranks() == 1 ? 0 : 3;
  for (int64_t stage = 0; stage <= most; ++stage) {
    Candidate best = best_of_stage(request, arrangement, stage);
    if (!shares_nothing(best)) stages.push_back(std::move(best));
  }
  return stages;
}

Candidate configured(const Request& request) {
  return request.given_refusal.empty() ? predict(request, request.given)
                                       : refused(request.given, request.given_refusal);
}

std::vector<Candidate> candidates(const Request& request) {
  std::vector<Candidate> all;
  for (const int64_t nodes : node_counts(request.given.nodes)) {
    Arrangement arrangement = request.given;
    arrangement.nodes = nodes;
    std::ranges::move(stages_of(request, arrangement), std::back_inserter(all));
  }
  return all;
}

const Candidate& in_own_stage(const Request& request, const std::vector<Candidate>& all, int64_t nodes) {
  const auto found = std::ranges::find_if(all, [&](const Candidate& c) {
    return c.arrangement.nodes == nodes && c.arrangement.parallelism.zero_stage == request.given.parallelism.zero_stage;
  });
  if (found != all.end()) return *found;
  return *std::ranges::find(all, nodes, [](const Candidate& c) { return c.arrangement.nodes; });
}

const Candidate* plainest(const std::vector<Candidate>& all, int64_t nodes) {
  const auto found = std::ranges::find_if(
      all, [nodes](const Candidate& c) { return c.arrangement.nodes == nodes && c.works(); });  // stages ascend
  return found == all.end() ? nullptr : &*found;
}

const Candidate* cheapest(const std::vector<Candidate>& all) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : all) {
    if (plainest(all, candidate.arrangement.nodes) != &candidate) continue;
    if (best == nullptr || candidate.cost() < kCheaper * best->cost()) best = &candidate;
  }
  return best;
}

const Candidate* fastest(const std::vector<Candidate>& all, int64_t nodes) {
  double least = std::numeric_limits<double>::infinity();
  const auto counts = [&](const Candidate& c) { return c.arrangement.nodes == nodes && c.works(); };
  for (const Candidate& candidate : all) {
    if (counts(candidate)) least = std::min(least, candidate.time.total());
  }
  const auto found = std::ranges::find_if(  // stages ascend
      all, [&](const Candidate& c) { return counts(c) && kFaster * c.time.total() <= least; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace ddpm::plan
