// `ddpm data verify`: every file and image against its digest.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

void declare_data_verify(const Subcommand& data, Command& command);

}  // namespace ddpm::cli
