// `ddpm eval fields|samples|loss`: what a model is worth.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `eval` of `program`; the chosen one of its own subcommands sets `command`.
void add_eval_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
