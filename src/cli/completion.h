// `ddpm completion SHELL`: a script by which a shell completes what is typed after `ddpm`.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares `ddpm completion`. It describes what `program` has when it runs: all that is declared.
void add_completion_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
