// `ddpm config new|show|validate`: making a configuration, and the resolved one with every key documented.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `config` of `program`.
void add_config_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
