// ddpm: parse, start MPI, run one subcommand, and turn what it throws into the documented exit code.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/standard_streams.h"
#include "base/version.h"
#include "cli/bench.h"
#include "cli/checkpoint.h"
#include "cli/command_line.h"
#include "cli/completion.h"
#include "cli/config.h"
#include "cli/context.h"
#include "cli/data.h"
#include "cli/doctor.h"
#include "cli/env.h"
#include "cli/eval.h"
#include "cli/plan.h"
#include "cli/report.h"
#include "cli/sample.h"
#include "cli/train.h"
#include "cli/usage.h"
#include "comm/collectives.h"
#include "comm/launch.h"
#include "run/clean_end.h"
#include "run/fault.h"
#include "run/run_program.h"

namespace ddpm::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done, 2 usage or configuration, 3 dataset, 4 checkpoint, model or output, 5 communication,\n"
    "6 numerics, 75 stopped on request, with a checkpoint; 1 a bug.\n"
    "Every subcommand runs under mpirun or srun with any number of ranks, or bare as one "
    "(bench comm: two or more).";

void declare(const Subcommand& program, Command& command) {
  program.footer(kFooter);
  program.require_subcommand();
  add_data_command(program, command);
  add_train_command(program, command);
  add_sample_command(program, command);
  add_checkpoint_command(program, command);
  add_eval_command(program, command);
  add_plan_command(program, command);
  add_config_command(program, command);
  add_report_command(program, command);
  add_bench_command(program, command);
  add_env_command(program, command);
  add_doctor_command(program, command);
  add_completion_command(program, command);
}

bool launched() { return comm::launched_rank(comm::process_environment()).has_value(); }
bool launched_as_first() { return comm::launched_as_first(comm::process_environment()); }

/// "checkpoint list": the subcommands without the program.
std::string name_of(const std::vector<Subcommand>& chosen) {
  std::string name;
  for (std::size_t i = 1; i < chosen.size(); ++i) {
    if (!name.empty()) name += ' ';
    name += chosen[i].name();
  }
  return name;
}

/// --help and --version, which start no MPI.
int print_help(const std::string& text) {
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));  // run::run_program does so for everything else
  try {
    base::write_standard_output(text);
    return static_cast<int>(base::ExitCode::done);
  } catch (const base::OutputError& error) {
    base::Logger(0, 1).error("{}", error.what());
    return static_cast<int>(error.code());
  }
}

/// Refuses a command line, presumably on every rank. Ranks leave together, through MPI: a launcher that sees one of
/// them fail may end the others, including the one that prints the message.
int refuse_usage(const std::string& reason, int argc, char** argv) {
  if (launched_as_first()) base::Logger(0, 1).error("{}", reason);
  const auto compare = [](const run::Runtime& runtime) {
    comm::expect_same(runtime.session.world(), "command", "refused");
  };
  const int code = launched() ? run::run_program(argc, argv, compare, {}, run::CudaLibrary::if_needed) : 0;
  return code != 0 ? code : static_cast<int>(base::ExitCode::usage);
}

void run(const Command& command, const std::string& name, const run::Runtime& runtime) {
  comm::Communicator& world = runtime.session.world();
  Context context{runtime, name};
  comm::expect_same(world, "command", name + (command.trains ? " (training)" : ""));
  comm::agree(world, [&] {
    const comm::Environment environment = comm::process_environment();
    context.progress_timeout_s = comm::seconds_of(environment, kProgressVariable, kProgressTimeout);
    if (command.shares_work) comm::check_launch(runtime.session.size(), environment);
  });
  if (command.trains) return command.run(context);
  const run::CleanEnd clean_end;
  context.enter("");
  command.run(context);
}

int main(int argc, char** argv) {
  CommandLine line("ddpm", "Trains denoising diffusion UNets on supercomputers.",
                   std::string("ddpm ") + base::kVersion);
  Command command;
  declare(line.program(), command);
  const Parsed parsed = line.parse(argc, argv);
  if (parsed.asked != Asked::command || !command.trains) run::release_stop_signals();
  if (parsed.asked == Asked::refused) return refuse_usage(usage_text(line, parsed.text), argc, argv);
  if (parsed.asked == Asked::help) return launched_as_first() ? print_help(parsed.text) : 0;
  command.start.shares_work = command.shares_work;
  return run::run_program(
      argc, argv, [&](const run::Runtime& runtime) { run(command, name_of(line.chosen()), runtime); }, command.start,
      run::CudaLibrary::if_needed);
}

/// The first code of the process that runs: before the initialisers of the shared libraries, LibTorch's among them, and
/// long before main(). A signal that stops a training may come that early on a busy machine. Nothing of this program is
/// initialised yet.
void before_initialisers(int argc, char** argv, char** /*environment*/) {
  base::reserve_standard_streams();
  if (argc > 1 && std::strcmp(argv[1], "train") == 0) run::hold_stop_signals();
}
#ifndef __SANITIZE_ADDRESS__  // its own initialiser has to come first
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeInitialisers)(int, char**,
                                                                                char**) = before_initialisers;
#endif

}  // namespace
}  // namespace ddpm::cli

int main(int argc, char** argv) {
#ifdef __SANITIZE_ADDRESS__
  ddpm::cli::before_initialisers(argc, argv, nullptr);
#endif
  const int code = ddpm::cli::main(argc, argv);
  ddpm::base::end_if_reader_left();
#ifndef __SANITIZE_ADDRESS__  // whose search for leaks is an exit handler
  // Everything of ours is closed. LibTorch takes 40 ms to forget its operators one by one, which the kernel does at
  // once.
  std::fflush(nullptr);
  std::_Exit(code);
#endif
  return code;
}
