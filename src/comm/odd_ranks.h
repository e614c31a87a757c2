// Which ranks hold something else than the others, where all should hold the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddpm::comm {

struct OddRanks {
  std::vector<int64_t> ranks;  ///< in ascending order; none where all hold the same
  int64_t usual = 0;           ///< the lowest rank that holds what is usual
  bool tie = false;            ///< as many ranks hold something else, so that nobody knows who is right
};

/// Compares what each of `ranks`, one at least and in ascending order, holds, which is `held` at its number. What is
/// usual is what most of them hold; where as many hold one thing as another, what the lowest of these ranks holds.
OddRanks find_odd_ranks(std::span<const int64_t> ranks, std::span<const std::string> held);

}  // namespace ddpm::comm
