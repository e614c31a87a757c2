// ddpm: parse, start MPI, run one subcommand, and turn what it throws into the documented exit code.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

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
    "6 numerics, 1 a bug.\n"
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

/// This process's rank, as its launcher numbers it; null when it was started bare.
const char* launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return rank;
  }
  return nullptr;
}
bool launched() { return launched_rank() != nullptr; }

/// Whether this process is the one that speaks before MPI has said who is who.
bool launched_as_first() { return !launched() || std::string_view(launched_rank()) == "0"; }

/// What went wrong, for people: LibTorch appends where it was raised and its call stack, on further lines.
std::string explain(base::ExitCode code, const std::string& what) {
  return code == base::ExitCode::bug ? what.substr(0, what.find('\n')) : what;
}

/// Runs the subcommand; every rank returns the same code where the ranks agreed on an error, and ends the whole job
/// where one rank alone has one.
int run(const Command& command, comm::MpiSession& session) {
  const base::Logger log(session.rank(), session.size());
  const auto files = base::posix_file_system();
  Context context{session, *files, log};
  try {
    if (command.shares_work) {
      comm::agree(session.world(), [&] { comm::check_launch(session.size(), comm::process_environment()); });
    }
    command.run(context);
    session.finalize();
    return static_cast<int>(base::ExitCode::done);
  } catch (const comm::AgreedError& error) {
    // Tasks of a launcher that started single programs are each rank 0 of 1: one of them speaks.
    if (error.speaks() && (session.size() > 1 || launched_as_first())) {
      log.error("{}", explain(error.code(), error.what()));
    }
    session.finalize();
    return static_cast<int>(error.code());
  } catch (const base::Error& error) {
    log.error("{}", error.what());
    if (session.size() == 1) {  // nobody to take along
      session.finalize();
      return static_cast<int>(error.code());
    }
    session.abort(static_cast<int>(error.code()));
  } catch (const std::exception& error) {
    log.error("{}", explain(base::ExitCode::bug, error.what()));
    session.abort(static_cast<int>(base::ExitCode::bug));
  }
}

/// What CLI11 says, with the word that it leaves out: a command that there is not.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto unknown = app.remaining();
  if (error.get_name() == "RequiredError" && !unknown.empty() && app.get_subcommands().empty()) {
    return fmt::format("unknown command '{}'", unknown.front());
  }
  return error.what();
}

/// A command line that every rank refuses alike. Ranks leave together, by way of MPI: a launcher that sees one of them
/// fail may end the others, the one that speaks among them.
int refuse_usage(const std::string& reason, int argc, char** argv) {
  if (launched_as_first()) std::fprintf(stderr, "ddpm: error: %s; try ddpm --help\n", reason.c_str());
  if (launched()) {
    try {
      comm::MpiSession session(argc, argv);
      session.finalize();
    } catch (const base::Error&) {
      // Single programs instead of ranks: they have nobody to wait for, and the usage is wrong all the same.
    }
  }
  return static_cast<int>(base::ExitCode::usage);
}

int main(int argc, char** argv) {
  CLI::App app;
  Command command;
  declare(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return refuse_usage(explain(app, error), argc, argv);
    return launched_as_first() ? app.exit(error) : 0;  // --help and --version
  }
  std::optional<comm::MpiSession> session;
  try {
    session.emplace(argc, argv);
  } catch (const base::Error& error) {  // the same on every task
    if (launched_as_first()) std::fprintf(stderr, "ddpm: error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
  try {
    return run(command, *session);
  } catch (const base::Error& error) {
    std::fprintf(stderr, "ddpm: error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace
}  // namespace ddpm::cli

int main(int argc, char** argv) { return ddpm::cli::main(argc, argv); }
