// `ddpm data generate`.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

void declare_data_generate(const Subcommand& data, Command& command);

}  // namespace ddpm::cli
