// Groups of samples that are left out together, where leaving out each by itself would take too long.
#pragma once

#include <cstdint>
#include <vector>

namespace ddpm::eval {

/// Groups of the jackknife of what is computed from all samples at once.
inline constexpr int64_t kJackknifeGroups = 20;

/// The members of each group: `rows` rows in a random order of a fixed seed, dealt evenly to kJackknifeGroups groups or
/// as many as there are rows. Sets may be sorted by class, so that neighbours are not independent.
std::vector<std::vector<int64_t>> random_groups(int64_t rows);

}  // namespace ddpm::eval
