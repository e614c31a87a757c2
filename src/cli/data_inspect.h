// `ddpm data inspect`: what a dataset holds.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

void declare_data_inspect(const Subcommand& data, Command& command);

}  // namespace ddpm::cli
