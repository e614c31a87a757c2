// A timeline of all ranks, as Perfetto and Chrome read it.
#pragma once

#include "base/file_system.h"
#include "base/trace.h"
#include "comm/mpi_session.h"

namespace ddpm::train {

/// Writes what `trace` of each rank has recorded into one file at `path`: JSON in the Trace Event Format, a process for
/// each rank and a thread for each track, in microseconds since rank 0 began. Rank 0 holds the events of one rank at a
/// time. Collective; throws OutputError's code on all ranks.
void write_trace(base::FileSystem& files, const base::Path& path, base::Trace& trace, comm::MpiSession& session);

}  // namespace ddpm::train
