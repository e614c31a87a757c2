// `ddpm env`: versions and hardware, to paste into an issue.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `env` of `app`.
void add_env_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
