// Slurm's PMIx plugin lets ranks leave MPI_Init before the ranks of other nodes are able to receive messages.
#pragma once

#include "comm/launch.h"

namespace ddpm::comm {

/// Returns when every rank of an srun over several nodes has left MPI_Init; does nothing under other launchers. Call it
/// right after MPI_Init, before any message.
///
/// Open MPI ends MPI_Init with a PMIx fence that carries no data. The plugin of Slurm 22.05 lets such a fence pass
/// before the ranks of other nodes have entered it, and a message over TCP then reaches a rank that has not registered
/// its receivers yet and jumps to address 0. A fence that collects data does wait, so this is one, made with the PMIx
/// library that Open MPI has loaded. Where Open MPI has PMIx built in, or PMIx's header was not found when this was
/// built, nothing is done here, and SLURM_PMIX_FENCE=ring in the environment of srun is needed.
///
/// Throws CommunicationError when the fence fails.
void wait_for_all_starts(const Environment& environment);

}  // namespace ddpm::comm
