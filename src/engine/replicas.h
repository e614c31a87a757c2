// Compares ranks that should hold equal numbers: a bit that flipped in memory, or a rank that computes differently,
// would otherwise spread through checkpoints and averages unseen.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "engine/training_state.h"
#include "layout/mesh.h"

namespace ddpm::engine {

/// Σ bits(vᵢ) (2i + 1) mod 2⁶⁴ over the values of a buffer: no change of a single value leaves it as it is, and many
/// changes do with a chance of about 2⁻⁶⁴.
uint64_t fingerprint(std::span<const float> values, uint64_t first_index = 0);
/// The fingerprint of a flat tensor's values as float32, computed where the tensor is: the host waits for the result
/// alone.
uint64_t fingerprint_on_device(const at::Tensor& flat, uint64_t first_index = 0);

/// The ranks that do not hold what most of their group along `axes` holds or, where as many hold one thing as another,
/// what its lowest rank holds. `held`: what each rank of `mesh` holds.
std::vector<int64_t> odd_ranks(const layout::Mesh& mesh, layout::Axes axes, std::span<const std::string> held);

/// Whether any rank of `mesh` may hold what another one holds, so that there is something to compare. All ranks have
/// the same answer.
bool has_replicas(const TrainingState& state, const layout::Mesh& mesh);

/// Compares weights, moments, averages and the state of outer steps of ranks with the same share of the state, and of
/// all data-parallel ranks the tensors that are not trained and, where each has them whole, the working weights. Throws
/// NumericsError (exit code 6) that names the ranks that differ from most others. Does nothing where has_replicas() is
/// false. Collective.
void compare_replicas(const TrainingState& state, const layout::Mesh& mesh, comm::Communicator& world);

/// Compares replicas before a checkpoint, so that none is put together from replicas that differ. Does nothing where
/// `every` (fault.compare_replicas_every) is 0, or has just had this step compared. Collective.
void compare_before_saving(const TrainingState& state, const layout::Mesh& mesh, comm::Communicator& world,
                           int64_t every);

}  // namespace ddpm::engine
