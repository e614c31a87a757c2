// `ddpm bench step|comm|io`: how fast this machine trains, talks and reads.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `bench` of `app`; the chosen one of its own subcommands sets `command`.
void add_bench_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
