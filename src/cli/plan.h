// `ddpm plan CONFIG.toml --nodes N --gpus-per-node G`: memory per rank and time per step, before a job is queued.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `plan` of `program`.
void add_plan_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
