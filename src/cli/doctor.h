// `ddpm doctor`: preflight on the allocated nodes.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `doctor` of `app`.
void add_doctor_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
