// `ddpm env`: versions and hardware, to paste into an issue.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `env` of `program`.
void add_env_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
