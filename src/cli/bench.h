// `ddpm bench step|stages|comm|io|sample`: how fast this machine trains, talks, reads and draws images.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `bench` of `program`; the chosen one of its own subcommands sets `command`.
void add_bench_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
