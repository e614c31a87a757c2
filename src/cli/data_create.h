// `ddpm data create`: making image sets.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `create` of `data`; when it is chosen it sets `command`.
void declare_data_create(CLI::App& data, Command& command);

}  // namespace ddpm::cli
