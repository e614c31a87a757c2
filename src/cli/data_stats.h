// `ddpm data stats`: moments, quantiles, histogram and power spectrum of every variable.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

void declare_data_stats(const Subcommand& data, Command& command);

}  // namespace ddpm::cli
