// The end of all ranks by one of them, whose error the others do not have.
#pragma once

#include <functional>

#include "base/error.h"

namespace ddpm::comm {

/// MPI_Abort: ends every rank with `exit_code`; this one after 5 s at the latest, and this one alone where MPI does not
/// run. First it does `before`, which must not block, and removes what is unfinished here (base/file_system.h). Any
/// thread may call it.
[[noreturn]] void end_all_ranks(int exit_code, const std::function<void()>& before = {});

/// Ends every rank for an error that this one has met while the ranks come together, in one line that names it. Where
/// many have the same error, such as a node that is gone, the first ranks say so and the others come too late.
[[noreturn]] void end_start(const base::Error& error);

}  // namespace ddpm::comm
