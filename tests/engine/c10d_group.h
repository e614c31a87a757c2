// A process group of PyTorch's c10d over MPI, so that c10d::Reducer, which DistributedDataParallel is made of, can run
// beside our own reducer. (c10d's own MPI backend is not in LibTorch's wheels, and the headers of gloo are not either.)
#pragma once

#include <mpi.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace ddpm::engine::test {

/// Collectives return when they are complete. float32 and int32, which is what the reducer sends. `comm` outlives the
/// group and serves nothing else meanwhile.
c10::intrusive_ptr<c10d::ProcessGroup> make_c10d_group(MPI_Comm comm);

}  // namespace ddpm::engine::test
