// What the subcommands of `ddpm eval` do with their result.
#pragma once

#include "base/file_system.h"
#include "cli/command_line.h"
#include "cli/context.h"
#include "eval/result.h"

namespace ddpm::cli {

/// It has to live as long as the command line.
struct ResultArguments {
  bool json = false;
  base::Path output;  ///< empty: no file
};

/// Adds --json and --output.
void declare_result_arguments(const Subcommand& command, ResultArguments& arguments);

/// Refuses, before the work begins, an output that cannot be a file. Collective; throws OutputError's code.
void expect_result_place(Context& context, const ResultArguments& arguments);

/// Writes the file, if one is asked for, and prints the result: as one JSON object, or as tables. Collective; the
/// result of rank 0 counts.
void deliver(Context& context, const eval::Result& result, const ResultArguments& arguments);

}  // namespace ddpm::cli
