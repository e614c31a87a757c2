// `ddpm config new|show|validate`: making a configuration, and the resolved one with every key documented.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `config` of `app`.
void add_config_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
