// `ddpm sample`: pictures from a trained model, on all ranks.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `sample` of `app`.
void add_sample_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
