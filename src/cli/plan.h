// `ddpm plan CONFIG.toml --nodes N --gpus-per-node G`: memory per rank and time per step, before a job is queued.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `plan` of `app`.
void add_plan_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
