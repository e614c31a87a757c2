// `ddpm eval samples`: sets of pictures against the pictures that a model was trained on.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `samples` of `eval`; when it is chosen it sets `command`.
void declare_eval_samples(const Subcommand& eval, Command& command);

}  // namespace ddpm::cli
