// `ddpm doctor`: preflight on the allocated nodes.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `doctor` of `program`.
void add_doctor_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
