// `ddpm config new`: a configuration for a data set and a machine.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `new` of `config`.
void add_config_new_command(CLI::App& config, Command& command);

}  // namespace ddpm::cli
