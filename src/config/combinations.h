// One pure function that refuses what cannot work together. Configuration, plan and dry run all ask it, so that none of
// them promises what another refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddpm::config {

/// What a run was asked for, with derived values filled in (ranks are counted). A feature enters with its first row.
struct Features {
  bool reproducible = false;                  ///< run.reproducible
  int64_t threads_per_rank = 0;               ///< run.threads_per_rank
  int64_t zero_stage = 0;                     ///< parallel.zero_stage
  std::string offload = "none";               ///< parallel.offload
  std::string gradient_compression = "none";  ///< parallel.gradient_compression
  int64_t world_size = 1;
  int64_t global_size = 1;                                  ///< batch.global_size
  int64_t micro_size = 1;                                   ///< batch.micro_size
  std::optional<int64_t> dp_shard_size = std::nullopt;      ///< parallel.dp_shard_size
  std::optional<int64_t> dp_replicate_size = std::nullopt;  ///< parallel.dp_replicate_size
};

/// Which combinations are looked at: all, or only those that no other number of ranks would allow.
enum class Scope : uint8_t { all, any_number_of_ranks };

/// All combinations that cannot work, a line each: the keys, what was asked, and what would work.
std::vector<std::string> refusals(const Features& features, Scope scope = Scope::all);
/// Throws ConfigError for the first combination that cannot work: the keys, what was asked, and what would work.
void refuse_combinations(const Features& features);

}  // namespace ddpm::config
