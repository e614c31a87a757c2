// Which GPU each rank of a host takes, of those that its launcher shows it. Pure arithmetic.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device_library.h"

namespace ddpm::device {

/// The GPUs that a rank sees, in CUDA's order: names that tell those of a host apart. "": an instance of a GPU (MIG),
/// of which CUDA shows a process one, taken as that rank's alone.
using SeenGpus = std::vector<std::string>;

SeenGpus seen_gpus(const DeviceFacts& facts);

/// Ranks of a host that see fewer GPUs, all together, than they are.
struct GpuShortage {
  std::size_t ranks = 0;
  std::size_t gpus = 0;
};

struct GpuChoice {
  std::vector<int> of_rank = {};  ///< a number among those that the rank sees
  std::optional<GpuShortage> shortage = std::nullopt;
};

/// A GPU for each rank of a host, in the order of local ranks, each of which sees one at least. The only one that a
/// rank sees is its launcher's choice. The others get one each that nobody else has: where all see all, that of their
/// number, and where a launcher shows them those near their cores alone (srun --gpu-bind=closest), one of these.
GpuChoice own_gpus(std::span<const SeenGpus> ranks);

/// Returns own_gpus() of each rank. Where there are too few, and ranks may share GPUs, neighbours of those that see the
/// same ones do; throws ConfigError with the numbers where they may not.
std::vector<int> choose_gpus(std::span<const SeenGpus> ranks, bool share);

}  // namespace ddpm::device
