// `ddpm checkpoint list|verify|reshard|export DIR`: shows what a run has saved, checks that it is whole, and writes it
// in other shards, or as a model.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `checkpoint` of `program`; the chosen one of its own subcommands sets `command`.
void add_checkpoint_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
