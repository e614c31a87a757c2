// `ddpm sample`: pictures from a trained model, on all ranks.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `sample` of `program`.
void add_sample_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
