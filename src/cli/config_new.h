// `ddpm config new`: a configuration for a data set and a machine.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `new` of `config`.
void add_config_new_command(const Subcommand& config, Command& command);

}  // namespace ddpm::cli
