// `ddpm checkpoint export`: models for other programs.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// `parent` is `ddpm checkpoint`.
void add_export_command(const Subcommand& parent, Command& command);

}  // namespace ddpm::cli
