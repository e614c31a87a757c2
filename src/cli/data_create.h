// `ddpm data create`: making image sets.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `create` of `data`; when it is chosen it sets `command`.
void declare_data_create(const Subcommand& data, Command& command);

}  // namespace ddpm::cli
