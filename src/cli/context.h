// What main() hands to the subcommands.
#pragma once

#include <functional>

#include "base/file_system.h"
#include "base/log.h"
#include "comm/session.h"

namespace ddpm::cli {

struct Context {
  comm::MpiSession& session;
  base::FileSystem& files;
  const base::Logger& log;
};

/// Each subcommand has a function add_X_command(CLI::App&, Command&) that declares its options. When the subcommand is
/// chosen, its callback sets `command`; main() starts MPI after parsing (so that --help needs none) and calls it on
/// every rank. It returns normally for exit code 0, and throws for every other one.
using Command = std::function<void(Context&)>;

}  // namespace ddpm::cli
