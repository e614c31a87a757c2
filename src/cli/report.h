// `ddpm report RUN...`: a page about runs, in one HTML file.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares `ddpm report`.
void add_report_command(const Subcommand& program, Command& command);

}  // namespace ddpm::cli
