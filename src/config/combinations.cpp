#include "config/combinations.h"

#include <array>
#include <bit>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"

namespace ddpm::config {
namespace {

/// A row refuses by returning the line to print; an empty one has no objection.
struct Row {
  std::string (*refuse)(const Features&);
  bool depends_on_ranks;  ///< another number of ranks may be allowed
};

bool power_of_two(int64_t n) { return n > 0 && std::has_single_bit(static_cast<uint64_t>(n)); }

std::string batch_does_not_divide(const Features& f) {
  // Compared by division first: the product of absurd sizes must not overflow.
  const bool positive = f.global_size > 0 && f.micro_size > 0 && f.world_size > 0;
  if (positive && f.micro_size <= f.global_size / f.world_size && f.global_size % (f.micro_size * f.world_size) == 0) {
    return "";
  }
  return fmt::format(
      "batch.global_size = {} does not divide into micro-batches: it must be a positive multiple of batch.micro_size × "
      "data-parallel ranks = {} × {} = {:.0f}",
      f.global_size, f.micro_size, f.world_size, static_cast<double>(f.micro_size) * static_cast<double>(f.world_size));
}

std::string shards_do_not_multiply(const Features& f) {
  if (!f.dp_shard_size && !f.dp_replicate_size) return "";
  const int64_t shard = f.dp_shard_size.value_or(f.world_size / f.dp_replicate_size.value_or(1));
  const int64_t replicate = f.dp_replicate_size.value_or(shard > 0 ? f.world_size / shard : 0);
  if (shard * replicate == f.world_size) return "";
  return fmt::format(
      "parallel.dp_shard_size = {} × parallel.dp_replicate_size = {} is {}; it must be the number of data-parallel "
      "ranks, {}",
      shard, replicate, shard * replicate, f.world_size);
}

std::string shards_of_nothing(const Features& f) {
  if (f.zero_stage > 0 ||
      (f.dp_shard_size.value_or(1) == 1 && f.dp_replicate_size.value_or(f.world_size) == f.world_size)) {
    return "";
  }
  return fmt::format(
      "parallel.dp_shard_size and parallel.dp_replicate_size cut the state by parallel.zero_stage 1, 2 or 3; with 0 "
      "each of {} holds all of it",
      base::counted(f.world_size, "data-parallel rank"));
}

// Only then are the sums of all ranks whole subtrees of one fixed tree over the micro-batches.
std::string reproducible_off_the_tree(const Features& f) {
  if (!f.reproducible) return "";
  const bool whole = f.micro_size > 0 && f.global_size % f.micro_size == 0;
  if (whole && power_of_two(f.global_size / f.micro_size) && power_of_two(f.world_size)) return "";
  return fmt::format(
      "run.reproducible = true with batch.global_size = {}, batch.micro_size = {} and {}: it needs powers of "
      "two, both as the number of ranks and as batch.global_size / batch.micro_size",
      f.global_size, f.micro_size, base::counted(f.world_size, "rank"));
}

// Matrix products and reductions cut their work by the number of threads.
std::string reproducible_on_any_threads(const Features& f) {
  if (!f.reproducible || f.threads_per_rank > 0) return "";
  return "run.reproducible = true with run.threads_per_rank = 0: results depend on the number of threads, which would "
         "follow from the machine; set it, to 1 for example";
}

// There, parts are added as they arrive from the network, micro-batch by micro-batch.
std::string reproducible_shards(const Features& f) {
  if (!f.reproducible || f.zero_stage < 2) return "";
  return fmt::format(
      "run.reproducible = true with parallel.zero_stage = {}: the fixed order of summation needs whole gradients on "
      "every rank; parallel.zero_stage = 0 or 1 keeps them",
      f.zero_stage);
}

std::string reproducible_compression(const Features& f) {
  if (!f.reproducible || f.gradient_compression == "none") return "";
  return fmt::format(
      "run.reproducible = true with parallel.gradient_compression = \"{}\": how often "
      "a sum is rounded to 16 bits depends on the number of ranks; set it to \"none\"",
      f.gradient_compression);
}

// Whole weights are where forward and backward run; only stage 3 has a copy of its own to put elsewhere.
std::string offload_of_whole_weights(const Features& f) {
  if (f.offload != "parameters" || f.zero_stage == 3) return "";
  return fmt::format(
      "parallel.offload = \"parameters\" with parallel.zero_stage = {}: only stage 3 can keep weights in host memory; "
      "set parallel.zero_stage = 3, or parallel.offload = \"optimizer\"",
      f.zero_stage);
}

constexpr std::array<Row, 8> kRows{{
    {.refuse = batch_does_not_divide, .depends_on_ranks = true},
    {.refuse = shards_do_not_multiply, .depends_on_ranks = true},
    {.refuse = shards_of_nothing, .depends_on_ranks = true},
    {.refuse = offload_of_whole_weights, .depends_on_ranks = false},
    {.refuse = reproducible_off_the_tree, .depends_on_ranks = true},
    {.refuse = reproducible_on_any_threads, .depends_on_ranks = false},
    {.refuse = reproducible_shards, .depends_on_ranks = false},
    {.refuse = reproducible_compression, .depends_on_ranks = false},
}};

}  // namespace

std::vector<std::string> refusals(const Features& features, Scope scope) {
  std::vector<std::string> lines;
  for (const Row& row : kRows) {
    if (scope == Scope::any_number_of_ranks && row.depends_on_ranks) continue;
    if (std::string refusal = row.refuse(features); !refusal.empty()) lines.push_back(std::move(refusal));
  }
  return lines;
}

void refuse_combinations(const Features& features) {
  const std::vector<std::string> lines = refusals(features);
  if (!lines.empty()) throw base::ConfigError("{}", lines.front());
}

}  // namespace ddpm::config
