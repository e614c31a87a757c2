// The facts of this process, including those that other folders know: LibTorch, HDF5, training's threads.
#pragma once

#include "comm/mpi_session.h"
#include "doctor/process_facts.h"

namespace ddpm::doctor {

ProcessFacts this_process(const comm::MpiSession& session);

}  // namespace ddpm::doctor
