// `ddpm eval loss`: the loss of a model on images that it was not trained on.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `loss` of `eval`; when it is chosen it sets `command`.
void declare_eval_loss(const Subcommand& eval, Command& command);

}  // namespace ddpm::cli
