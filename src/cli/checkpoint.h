// `ddpm checkpoint list|verify|reshard DIR`: what a run has saved, whether it is whole, and the same in other shards.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `checkpoint` of `app`; the chosen one of its own subcommands sets `command`.
void add_checkpoint_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
