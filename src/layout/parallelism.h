// What a run asks of its ranks: one value, made once from the configuration, that planning, a dry run and training
// share. One pure function refuses what cannot work together, so that none of them promises what another refuses.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/batch_layout.h"
#include "layout/mesh.h"

namespace ddpm::layout {

/// What is kept in host memory instead of where forward and backward run: see parallel/offload.h.
enum class Offload : uint8_t { none, optimizer, parameters };
constexpr auto names_of(Offload /*type*/) {
  return std::to_array<std::string_view>({"none", "optimizer", "parameters"});
}

/// The dtype in which gradients travel between ranks; none: float32.
enum class GradientCompression : uint8_t { none, bf16, fp16 };
constexpr auto names_of(GradientCompression /*type*/) {
  return std::to_array<std::string_view>({"none", "bf16", "fp16"});
}

/// The keys as they were set, without the number of ranks: a plan looks at the same keys on many numbers of ranks.
struct Parallelism {
  bool reproducible = false;                                             ///< run.reproducible
  int64_t threads_per_rank = 0;                                          ///< run.threads_per_rank
  int64_t zero_stage = 0;                                                ///< parallel.zero_stage
  Offload offload = Offload::none;                                       ///< parallel.offload
  GradientCompression gradient_compression = GradientCompression::none;  ///< parallel.gradient_compression
  int64_t global_size = 1;                                               ///< batch.global_size
  int64_t micro_size = 1;                                                ///< batch.micro_size
  std::optional<int64_t> dp_shard_size = std::nullopt;                   ///< parallel.dp_shard_size
  std::optional<int64_t> dp_replicate_size = std::nullopt;               ///< parallel.dp_replicate_size
  int64_t tiles = 1;                                                     ///< the product of parallel.spatial_size
  int64_t tensor_size = 1;                                               ///< parallel.tensor_size
  int64_t pipeline_size = 1;                                             ///< parallel.pipeline_size
  std::vector<int64_t> stage_units = {};                                 ///< parallel.stage_units
  int64_t sync_every = 0;  ///< parallel.sync_every; above 0, copies of the state are islands

  /// The degrees on `ranks` ranks, outermost first: a key that is not set follows from the other, and stage 0 shares
  /// nothing where neither is set. They make a mesh where refusals() has nothing to say.
  [[nodiscard]] std::vector<Degree> degrees(int64_t ranks) const;
  /// How many of `ranks` see different images: all, but for those along axes that are not in kDataParallel. Known where
  /// the degrees make no mesh, too.
  [[nodiscard]] int64_t data_parallel_size(int64_t ranks) const;
  /// Who sees different images of a batch: "4 ranks", or "2 groups of 4 tiles" where images are cut, "2 groups of 4
  /// tiles × 2 parts" where blocks are too, with the stages of a pipeline before them.
  [[nodiscard]] std::string viewers(int64_t ranks) const;
  /// How a batch divides: "4 ranks × 2 images × 1 accumulation step" where `noun` is "image".
  [[nodiscard]] std::string batch_text(int64_t ranks, std::string_view noun) const;
  /// ", in 2 islands with an outer step every 20 steps" with sync_every, "" without.
  [[nodiscard]] std::string islands_text(int64_t ranks) const;
  /// The ranks as a grid. Throws ConfigError where the degrees do not multiply to `ranks`.
  [[nodiscard]] Mesh mesh(int64_t ranks) const;
  /// The batch over the data-parallel ranks of `mesh`. Throws ConfigError where it does not divide.
  [[nodiscard]] BatchLayout batch(const Mesh& mesh) const;
};

/// All combinations that cannot work on `ranks` ranks, a line each: the keys, what was asked, and what would work.
std::vector<std::string> refusals(const Parallelism& parallelism, int64_t ranks);
/// Which of the refusals says that there is no number of islands; "" where there is one, and without
/// parallel.sync_every.
std::string islands_refusal(const Parallelism& parallelism, int64_t ranks);
/// Why no micro-batch would let the ranks have equal shares of a batch; "" where one does, and where tiles, parts and
/// stages do not divide the ranks, which is another refusal.
std::string uneven_batch(const Parallelism& parallelism, int64_t ranks);
/// What a run is told whose ZeRO stage shares nothing, since its ranks see the same images: "" for any other run.
std::string state_of_one(const Parallelism& parallelism, int64_t ranks);
/// What a run is told that has parallel.sync_every and one island: "" for any other run.
std::string island_of_one(const Parallelism& parallelism, int64_t ranks);
/// Both of these, as far as there is something to tell.
std::vector<std::string> warnings(const Parallelism& parallelism, int64_t ranks);
/// Throws ConfigError for the first combination that cannot work on `ranks` ranks.
void refuse_combinations(const Parallelism& parallelism, int64_t ranks);
/// Throws ConfigError with all combinations that work on no number of ranks.
void refuse_on_any_ranks(const Parallelism& parallelism);

}  // namespace ddpm::layout
