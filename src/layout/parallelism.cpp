#include "layout/parallelism.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"

namespace ddpm::layout {
namespace {

/// A row refuses by returning the line to print; an empty one has no objection.
struct Row {
  std::string (*refuse)(const Parallelism&, int64_t ranks);
  bool depends_on_ranks;  ///< another number of ranks may be allowed
};

bool power_of_two(int64_t n) { return n > 0 && std::has_single_bit(static_cast<uint64_t>(n)); }

/// Whether tiles, parts and stages divide the ranks. What does not is refused as such.
bool cuts_divide(const Parallelism& p, int64_t ranks) {
  for (const int64_t cut : {p.tiles, p.tensor_size, p.pipeline_size}) {
    if (ranks % cut != 0) return false;
    ranks /= cut;
  }
  return true;
}

std::string batch_does_not_divide(const Parallelism& p, int64_t ranks) {
  if (!cuts_divide(p, ranks)) return "";
  return BatchLayout::refusal(p.global_size, p.micro_size, p.data_parallel_size(ranks));
}

std::string cuts_do_not_divide(const Parallelism& p, int64_t ranks) {
  if (cuts_divide(p, ranks)) return "";
  std::vector<std::string> cuts;
  if (p.pipeline_size > 1) cuts.push_back(fmt::format("parallel.pipeline_size = {}", p.pipeline_size));
  if (p.tiles > 1) cuts.push_back(fmt::format("parallel.spatial_size of {} tiles", p.tiles));
  if (p.tensor_size > 1) cuts.push_back(fmt::format("parallel.tensor_size = {}", p.tensor_size));
  // Absurd sizes must not overflow.
  const double together =
      static_cast<double>(p.pipeline_size) * static_cast<double>(p.tiles) * static_cast<double>(p.tensor_size);
  return fmt::format("{}: {:.0f} ranks see the same images, of {}; wanted: a multiple of {:.0f}",
                     fmt::join(cuts, " × "), together, base::counted(ranks, "rank"), together);
}

std::string shards_do_not_multiply(const Parallelism& p, int64_t ranks) {
  if (!cuts_divide(p, ranks)) return "";
  const int64_t images = p.data_parallel_size(ranks);
  const auto wrong = [&](const char* key, const std::optional<int64_t>& size) {
    if (!size || images % *size == 0) return std::string();
    return fmt::format("{} = {} for {}; wanted: a divisor of {}", key, *size, p.viewers(ranks), images);
  };
  if (std::string why = wrong("parallel.dp_shard_size", p.dp_shard_size); !why.empty()) return why;
  if (std::string why = wrong("parallel.dp_replicate_size", p.dp_replicate_size); !why.empty()) return why;
  return Mesh::refusal(p.degrees(ranks), ranks);
}

std::string shards_of_nothing(const Parallelism& p, int64_t ranks) {
  const int64_t images = p.data_parallel_size(ranks);
  if (p.zero_stage > 0 || (p.dp_shard_size.value_or(1) == 1 && p.dp_replicate_size.value_or(images) == images)) {
    return "";
  }
  return fmt::format(
      "parallel.dp_shard_size and parallel.dp_replicate_size cut the state by parallel.zero_stage 1, 2 or 3; with 0 "
      "each of {} holds all of it",
      base::counted(images, "data-parallel rank"));
}

// Only then are the sums of all ranks whole subtrees of one fixed tree over the micro-batches.
std::string reproducible_off_the_tree(const Parallelism& p, int64_t ranks) {
  if (!p.reproducible) return "";
  const bool whole = p.micro_size > 0 && p.global_size % p.micro_size == 0;
  if (whole && power_of_two(p.global_size / p.micro_size) && power_of_two(ranks)) return "";
  return fmt::format(
      "run.reproducible = true with batch.global_size = {}, batch.micro_size = {} and {}: it needs powers of "
      "two, both as the number of ranks and as batch.global_size / batch.micro_size",
      p.global_size, p.micro_size, base::counted(ranks, "rank"));
}

// Matrix products and reductions cut their work by the number of threads.
std::string reproducible_on_any_threads(const Parallelism& p, int64_t /*ranks*/) {
  if (!p.reproducible || p.threads_per_rank > 0) return "";
  return "run.reproducible = true with run.threads_per_rank = 0: results depend on the number of threads, which would "
         "follow from the machine; set it, to 1 for example";
}

// There, parts are added as they arrive from the network, micro-batch by micro-batch.
std::string reproducible_shards(const Parallelism& p, int64_t /*ranks*/) {
  if (!p.reproducible || p.zero_stage < 2) return "";
  return fmt::format(
      "run.reproducible = true with parallel.zero_stage = {}: the fixed order of summation needs whole gradients on "
      "every rank; parallel.zero_stage = 0 or 1 keeps them",
      p.zero_stage);
}

std::string reproducible_compression(const Parallelism& p, int64_t /*ranks*/) {
  if (!p.reproducible || p.gradient_compression == GradientCompression::none) return "";
  return fmt::format(
      "run.reproducible = true with parallel.gradient_compression = \"{}\": how often "
      "a sum is rounded to 16 bits depends on the number of ranks; set it to \"none\"",
      base::name_of(p.gradient_compression));
}

/// Refuses a cut of the model or of the job under run.reproducible: why the result depends on it.
std::string reproducible_cut(const Parallelism& p, std::string_view key, int64_t value, int64_t none,
                             std::string_view why) {
  if (!p.reproducible || value == none) return "";
  return fmt::format("run.reproducible = true with parallel.{} = {}: {}; set it to {}", key, value, why, none);
}

// Sums over channels are those of partial results, which one rank does not have.
std::string reproducible_channels(const Parallelism& p, int64_t /*ranks*/) {
  return reproducible_cut(p, "tensor_size", p.tensor_size, 1,
                          "what a block's channels add up to is summed in another order");
}

// The squares of a norm are added stage by stage.
std::string reproducible_stages(const Parallelism& p, int64_t /*ranks*/) {
  return reproducible_cut(p, "pipeline_size", p.pipeline_size, 1, "the gradient's norm is summed in another order");
}

// Each island has its own sums, and so what is averaged depends on their number.
std::string reproducible_islands(const Parallelism& p, int64_t /*ranks*/) {
  return reproducible_cut(p, "sync_every", p.sync_every, 0,
                          "what copies that are updated on their own make together depends on their number");
}

/// The key by which all ranks share one copy, and what would make several of it.
struct OneCopy {
  std::string key;
  std::string wanted;
};

/// Ranks that see different images share the copy.
OneCopy copy_of_shards(const Parallelism& p, int64_t images) {
  if (!p.dp_shard_size) {
    return {.key = p.dp_replicate_size ? fmt::format("dp_replicate_size = {}", *p.dp_replicate_size)
                                       : fmt::format("zero_stage = {}", p.zero_stage),
            .wanted = fmt::format("set parallel.dp_replicate_size to a divisor of {} above 1", images)};
  }
  return {.key = fmt::format("dp_shard_size = {}", *p.dp_shard_size),
          .wanted = fmt::format("set it to a smaller divisor of {}{}", images,
                                p.dp_replicate_size ? " and take parallel.dp_replicate_size out" : "")};
}

/// Parts or stages share it, of which more ranks would make others, unless the keys have those join this one.
OneCopy copy_of_cuts(const Parallelism& p, int64_t ranks) {
  const bool join = p.dp_replicate_size || (p.zero_stage > 0 && !p.dp_shard_size);
  return {.key = p.tensor_size > 1 ? fmt::format("tensor_size = {}", p.tensor_size)
                                   : fmt::format("pipeline_size = {}", p.pipeline_size),
          .wanted = join ? fmt::format("take {} ranks with parallel.dp_replicate_size = 2", 2 * ranks)
                         : fmt::format("take {} ranks or more", 2 * ranks)};
}

// One copy of several ranks would only be moved as if it were the average of several. That of one rank may be what is
// left of more, and goes on.
std::string islands_of_one_copy(const Parallelism& p, int64_t ranks) {
  if (p.sync_every == 0) return "";
  const std::vector<Degree> degrees = p.degrees(ranks);
  const int64_t copies = std::ranges::find(degrees, Axis::island, &Degree::axis)->ranks;
  const int64_t shard = std::ranges::find(degrees, Axis::shard, &Degree::axis)->ranks;
  if (copies != 1 || (shard == 1 && p.tensor_size == 1 && p.pipeline_size == 1)) return "";
  const OneCopy one = shard > 1 ? copy_of_shards(p, p.data_parallel_size(ranks)) : copy_of_cuts(p, ranks);
  return fmt::format(
      "parallel.sync_every = {} with parallel.{}: all ranks share one copy, which has nothing to be averaged with; {}, "
      "or parallel.sync_every = 0",
      p.sync_every, one.key, one.wanted);
}

// Whole weights are where forward and backward run; only stage 3 has a copy of its own to put elsewhere.
std::string offload_of_whole_weights(const Parallelism& p, int64_t /*ranks*/) {
  if (p.offload != Offload::parameters || p.zero_stage == 3) return "";
  return fmt::format(
      "parallel.offload = \"parameters\" with parallel.zero_stage = {}: only stage 3 can keep weights in host memory; "
      "set parallel.zero_stage = 3, or parallel.offload = \"optimizer\"",
      p.zero_stage);
}

constexpr std::array<Row, 13> kRows{{
    {.refuse = cuts_do_not_divide, .depends_on_ranks = true},
    {.refuse = batch_does_not_divide, .depends_on_ranks = true},
    {.refuse = shards_do_not_multiply, .depends_on_ranks = true},
    {.refuse = shards_of_nothing, .depends_on_ranks = true},
    {.refuse = islands_of_one_copy, .depends_on_ranks = true},
    {.refuse = offload_of_whole_weights, .depends_on_ranks = false},
    {.refuse = reproducible_off_the_tree, .depends_on_ranks = true},
    {.refuse = reproducible_on_any_threads, .depends_on_ranks = false},
    {.refuse = reproducible_shards, .depends_on_ranks = false},
    {.refuse = reproducible_compression, .depends_on_ranks = false},
    {.refuse = reproducible_channels, .depends_on_ranks = false},
    {.refuse = reproducible_stages, .depends_on_ranks = false},
    {.refuse = reproducible_islands, .depends_on_ranks = false},
}};

std::vector<std::string> lines_of(const Parallelism& parallelism, int64_t ranks, bool that_depend_on_ranks) {
  std::vector<std::string> lines;
  for (const Row& row : kRows) {
    if (row.depends_on_ranks && !that_depend_on_ranks) continue;
    if (std::string refusal = row.refuse(parallelism, ranks); !refusal.empty()) lines.push_back(std::move(refusal));
  }
  return lines;
}

}  // namespace

std::vector<Degree> Parallelism::degrees(int64_t ranks) const {
  const int64_t images =
      std::max<int64_t>(1, ranks / tiles / tensor_size / pipeline_size);  // ranks that see different ones
  const int64_t unset = zero_stage > 0 ? images : 1;
  const int64_t shard = dp_shard_size.value_or(dp_replicate_size ? images / *dp_replicate_size : unset);
  const int64_t replicate = dp_replicate_size.value_or(shard > 0 ? images / shard : 0);
  const Axis copies = sync_every > 0 ? Axis::island : Axis::replicate;
  std::vector<Degree> degrees;
  if (pipeline_size > 1) degrees.push_back({.axis = Axis::pipeline, .ranks = pipeline_size});
  degrees.push_back({.axis = copies, .ranks = replicate});
  degrees.push_back({.axis = Axis::shard, .ranks = shard});
  if (tiles > 1) degrees.push_back({.axis = Axis::spatial, .ranks = tiles});
  if (tensor_size > 1) degrees.push_back({.axis = Axis::tensor, .ranks = tensor_size});
  return degrees;
}

int64_t Parallelism::data_parallel_size(int64_t ranks) const {
  int64_t size = ranks;
  for (const Degree& degree : degrees(ranks)) {
    if (!kDataParallel.contains(degree.axis)) size /= std::max<int64_t>(1, degree.ranks);
  }
  return std::max<int64_t>(1, size);
}

std::string Parallelism::viewers(int64_t ranks) const {
  const int64_t viewers = data_parallel_size(ranks);
  if (tiles == 1 && tensor_size == 1 && pipeline_size == 1) return base::counted(viewers, "rank");
  std::vector<std::string> members;
  if (pipeline_size > 1) members.push_back(base::counted(pipeline_size, "stage"));
  if (tiles > 1) members.push_back(base::counted(tiles, "tile"));
  if (tensor_size > 1) members.push_back(base::counted(tensor_size, "part"));
  return fmt::format("{} of {}", base::counted(viewers, "group"), fmt::join(members, " × "));
}

std::string Parallelism::batch_text(int64_t ranks, std::string_view noun) const {
  const BatchLayout layout = batch(mesh(ranks));
  return fmt::format("{} × {} × {}", viewers(ranks), base::counted(layout.micro_size, noun),
                     base::counted(layout.accumulation_steps(), "accumulation step"));
}

std::string Parallelism::islands_text(int64_t ranks) const {
  if (sync_every == 0) return "";
  return fmt::format(", in {} with an outer step every {}", base::counted(mesh(ranks).degree(Axis::island), "island"),
                     base::counted(sync_every, "step"));
}

Mesh Parallelism::mesh(int64_t ranks) const { return {degrees(ranks), ranks}; }

BatchLayout Parallelism::batch(const Mesh& mesh) const {
  return BatchLayout::make(global_size, micro_size, mesh.degree(kDataParallel));
}

std::vector<std::string> refusals(const Parallelism& parallelism, int64_t ranks) {
  return lines_of(parallelism, ranks, /*that_depend_on_ranks=*/true);
}

std::string islands_refusal(const Parallelism& parallelism, int64_t ranks) {
  if (parallelism.sync_every == 0) return "";
  for (const auto refuse : {cuts_do_not_divide, shards_do_not_multiply, islands_of_one_copy}) {
    if (std::string refusal = refuse(parallelism, ranks); !refusal.empty()) return refusal;
  }
  return "";
}

std::string uneven_batch(const Parallelism& parallelism, int64_t ranks) {
  const int64_t images = parallelism.data_parallel_size(ranks);
  if (!cuts_divide(parallelism, ranks) || parallelism.global_size % images == 0) return "";
  return fmt::format("batch.global_size = {} does not divide over {}; wanted: a multiple of {}",
                     parallelism.global_size, parallelism.viewers(ranks), images);
}

std::string state_of_one(const Parallelism& parallelism, int64_t ranks) {
  if (parallelism.zero_stage == 0 || ranks == 1) return "";
  if (parallelism.mesh(ranks).degree(Axis::shard) > 1) return "";
  return fmt::format(
      "parallel.zero_stage = {}: a group that shares the state has one member ({} with images of their own), so that "
      "nothing is shared; wanted: 0, which sends less",
      parallelism.zero_stage, parallelism.viewers(ranks));
}

std::string island_of_one(const Parallelism& parallelism, int64_t ranks) {
  if (parallelism.sync_every == 0 || parallelism.mesh(ranks).degree(Axis::island) > 1) return "";
  return fmt::format(
      "parallel.sync_every = {}: there is one island, whose outer steps only slow down what it learns; wanted: more "
      "ranks, or 0 (what several islands have learned, one may go on with)",
      parallelism.sync_every);
}

std::vector<std::string> warnings(const Parallelism& parallelism, int64_t ranks) {
  std::vector<std::string> lines = {state_of_one(parallelism, ranks), island_of_one(parallelism, ranks)};
  std::erase(lines, "");
  return lines;
}

void refuse_combinations(const Parallelism& parallelism, int64_t ranks) {
  const std::vector<std::string> lines = refusals(parallelism, ranks);
  if (!lines.empty()) throw base::ConfigError("{}", lines.front());
}

void refuse_on_any_ranks(const Parallelism& parallelism) {
  const std::vector<std::string> lines = lines_of(parallelism, /*ranks=*/1, /*that_depend_on_ranks=*/false);
  if (!lines.empty()) throw base::ConfigError("{}", fmt::join(lines, "; also: "));
}

}  // namespace ddpm::layout
