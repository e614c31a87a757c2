// `ddpm eval fields`: samples of fields against the data, or against exact values.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `fields` of `eval`; when it is chosen it sets `command`.
void declare_eval_fields(const Subcommand& eval, Command& command);

}  // namespace ddpm::cli
