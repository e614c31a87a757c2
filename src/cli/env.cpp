#include "cli/env.h"

#include <cstdio>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/version.h>

#include "base/version.h"
#include "comm/library_version.h"
#include "h5/library_version.h"
#include "train/threads.h"

namespace ddpm::cli {
namespace {

void run(bool as_json, Context& context) {
  const comm::MpiSession& session = context.session;
  const nlohmann::ordered_json report = {
      {"ddpm", base::kVersion},
      {"libtorch", TORCH_VERSION},
      {"mpi", comm::mpi_library_version()},
      {"hdf5", h5::library_version()},
      {"cpu_capability", at::get_cpu_capability()},
      {"cpus_online", train::host_cpu_count()},
      {"cpus_of_this_rank", train::affinity_cpu_count()},
      {"ranks", session.size()},
      {"ranks_on_this_host", session.local_size()},
      {"host", session.host_name()},
  };
  if (session.rank() != 0) return;
  if (as_json) {
    std::printf("%s\n", report.dump().c_str());
    return;
  }
  for (const auto& [key, value] : report.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::printf("%-20s %s\n", key.c_str(), text.c_str());
  }
}

}  // namespace

void add_env_command(CLI::App& app, Command& command) {
  CLI::App* env = app.add_subcommand("env", "Versions and hardware, to paste into an issue");
  auto as_json = std::make_shared<bool>(false);
  env->add_flag("--json", *as_json, "One JSON object on stdout");
  env->callback([as_json, &command] { command.run = [as_json](Context& context) { run(*as_json, context); }; });
}

}  // namespace ddpm::cli
