// `ddpm train CONFIG.toml [--section.key VALUE ...] [--dry-run [--world N]]`: starts or resumes a run, or reports what
// the run would be.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `train` of `program`.
void add_train_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
