// `ddpm data create|inspect|verify`: making image sets and looking at them.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `data` of `app`; the chosen one of its own subcommands sets `command`.
void add_data_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
