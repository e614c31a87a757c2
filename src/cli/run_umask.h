// The permissions of a run's files, for commands that write one from another's.
#pragma once

#include "base/file_system.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Sets this process's umask to the run.umask of a run's config.toml, on every rank, or to the key's default if the
/// file does not exist. Collective. Throws AgreedError with exit code 4 when the file cannot be read or has another
/// value.
void take_umask(Context& context, const base::Path& config_file);

}  // namespace ddpm::cli
