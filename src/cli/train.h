// `ddpm train CONFIG.toml [--section.key VALUE ...] [--dry-run [--world N]]`: starts or resumes a run, or says what it
// would be.
#pragma once

#include "cli/context.h"

namespace CLI {
class App;
}

namespace ddpm::cli {

/// Declares the subcommand `train` of `app`.
void add_train_command(CLI::App& app, Command& command);

}  // namespace ddpm::cli
