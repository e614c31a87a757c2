// `ddpm data create|generate|adopt|append|reshard|inspect|stats|verify`: making image sets and looking at them.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `data` of `program`; the chosen one of its own subcommands sets `command`.
void add_data_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
