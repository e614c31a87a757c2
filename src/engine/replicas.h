// Compares ranks that should hold equal numbers: a bit that flipped in memory, or a rank that computes differently,
// would otherwise spread through checkpoints and averages unseen.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "engine/training_state.h"

namespace ddpm::engine {

/// Σ bits(vᵢ) (2i + 1) mod 2⁶⁴ over the values of a buffer: no change of a single value leaves it as it is, and many
/// changes do with a chance of about 2⁻⁶⁴.
uint64_t fingerprint(std::span<const float> values, uint64_t first_index = 0);
/// The fingerprint of a flat tensor's values as float32, computed where the tensor is: the host waits for the result
/// alone.
uint64_t fingerprint_on_device(const at::Tensor& flat, uint64_t first_index = 0);

/// Whether any rank of `ranks` holds what another one holds, so that there is something to compare.
bool has_replicas(const TrainingState& state, int ranks);

/// Compares weights, moments and averages of ranks with the same share of the state, and the working weights of all
/// ranks where each has them whole. Throws NumericsError (exit code 6) that names the ranks that differ from most
/// others. Does nothing where has_replicas() is false. Collective.
void compare_replicas(const TrainingState& state, comm::Communicator& world);

/// Compares replicas before a checkpoint, so that none is put together from replicas that differ. Does nothing where
/// `every` (fault.compare_replicas_every) is 0, or has just had this step compared. Collective.
void compare_before_saving(const TrainingState& state, comm::Communicator& world, int64_t every);

}  // namespace ddpm::engine
