// `ddpm data append` and `ddpm data reshard`.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommands `append` and `reshard` of `data`; the chosen one sets `command`.
void declare_data_append(const Subcommand& data, Command& command);
void declare_data_reshard(const Subcommand& data, Command& command);

}  // namespace ddpm::cli
