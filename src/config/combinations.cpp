#include "config/combinations.h"

#include <array>
#include <bit>

#include <fmt/format.h>

#include "base/error.h"

namespace ddpm::config {
namespace {

/// A row refuses by returning the line to print; an empty one has no objection.
using Row = std::string (*)(const Features&);

bool power_of_two(int64_t n) { return n > 0 && std::has_single_bit(static_cast<uint64_t>(n)); }

// Only then are the sums of all ranks whole subtrees of one fixed tree over the micro-batches.
std::string reproducible_off_the_tree(const Features& f) {
  if (!f.reproducible) return "";
  const bool whole = f.micro_size > 0 && f.global_size % f.micro_size == 0;
  if (whole && power_of_two(f.global_size / f.micro_size) && power_of_two(f.world_size)) return "";
  return fmt::format(
      "run.reproducible = true with batch.global_size = {}, batch.micro_size = {} and {} ranks: it needs powers of "
      "two, "
      "both as the number of ranks and as batch.global_size / batch.micro_size",
      f.global_size, f.micro_size, f.world_size);
}

constexpr std::array<Row, 1> kRows{reproducible_off_the_tree};

}  // namespace

void refuse_combinations(const Features& features) {
  for (const Row row : kRows) {
    const std::string refusal = row(features);
    if (!refusal.empty()) throw base::ConfigError("{}", refusal);
  }
}

}  // namespace ddpm::config
