// Ranks that should hold the same numbers, compared: a bit that flipped in memory, or a rank that computes otherwise,
// would otherwise spread through checkpoints and averages unseen.
#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.h"
#include "engine/training_state.h"

namespace ddpm::engine {

/// Σ bits(vᵢ) (2i + 1) mod 2⁶⁴ over the values of a buffer: no change of a single value leaves it as it is, and many
/// changes do with a chance of about 2⁻⁶⁴.
uint64_t fingerprint(std::span<const float> values, uint64_t first_index = 0);

/// Compares weights, moments and averages of ranks with the same share of the state, and the working weights of all
/// ranks where each has them whole. Throws NumericsError (exit code 6) that names the ranks that differ from most
/// others. Collective.
void compare_replicas(const TrainingState& state, comm::Communicator& world);

/// The same, so that no checkpoint is stitched together from replicas that differ; nothing where `every`
/// (fault.compare_replicas_every) is 0, or has just had this step compared. Collective.
void compare_before_saving(const TrainingState& state, comm::Communicator& world, int64_t every);

}  // namespace ddpm::engine
