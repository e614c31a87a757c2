// ddpm: parse, start MPI, run one subcommand, and turn what it throws into the documented exit code.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/version.h"
#include "cli/config.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/env.h"
#include "cli/plan.h"
#include "cli/sample.h"
#include "cli/train.h"
#include "comm/collectives.h"
#include "comm/launch.h"

namespace ddpm::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done, 2 usage or configuration, 3 dataset, 4 checkpoint, model or output, 5 communication,\n"
    "6 numerics, 75 stopped on request (resumable), 1 a bug.\n"
    "Every subcommand runs under mpirun or srun with any number of ranks, or bare as one.";

void declare(CLI::App& app, Command& command) {
  app.name("ddpm");
  app.description("Trains denoising diffusion UNets on supercomputers.");
  app.set_version_flag("--version", std::string("ddpm ") + base::kVersion);
  app.footer(kFooter);
  app.require_subcommand(1);
  add_data_command(app, command);
  add_train_command(app, command);
  add_sample_command(app, command);
  add_plan_command(app, command);
  add_config_command(app, command);
  add_env_command(app, command);
}

/// Whether this process is the one that speaks before MPI has said who is who.
bool launched_as_first() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return std::string_view(rank) == "0";
  }
  return true;
}

/// Runs the subcommand; every rank returns the same code where the ranks agreed on an error, and ends the whole job
/// where one rank alone has one.
int run(const Command& command, comm::MpiSession& session) {
  const base::Logger log(session.rank(), session.size());
  const auto files = base::posix_file_system();
  Context context{session, *files, log};
  try {
    command(context);
    session.finalize();
    return static_cast<int>(base::ExitCode::done);
  } catch (const comm::AgreedError& error) {
    if (error.speaks()) log.error("{}", error.what());
    session.finalize();
    return static_cast<int>(error.code());
  } catch (const base::Error& error) {
    log.error("{}", error.what());
    session.abort(static_cast<int>(error.code()));
  } catch (const std::exception& error) {
    log.error("{}", error.what());
    session.abort(static_cast<int>(base::ExitCode::bug));
  }
}

int main(int argc, char** argv) {
  CLI::App app;
  Command command;
  declare(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (!launched_as_first()) return error.get_exit_code() == 0 ? 0 : static_cast<int>(base::ExitCode::usage);
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    std::fprintf(stderr, "ddpm: error: %s; try ddpm --help\n", error.what());
    return static_cast<int>(base::ExitCode::usage);
  }
  try {
    comm::check_can_start(comm::process_environment());
    comm::die_with_launcher();
    comm::MpiSession session(argc, argv);
    return run(command, session);
  } catch (const base::Error& error) {
    std::fprintf(stderr, "ddpm: error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace
}  // namespace ddpm::cli

int main(int argc, char** argv) { return ddpm::cli::main(argc, argv); }
