#include "cli/env.h"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/json.h"
#include "cli/output.h"
#include "device/threads.h"
#include "doctor/number_ranges.h"
#include "doctor/this_process.h"

namespace ddpm::cli {
namespace {

using base::OrderedJson;
using doctor::HostFacts;
using doctor::ProcessFacts;

OrderedJson machine_json(const HostFacts& machine) {
  OrderedJson numa = OrderedJson::array();
  for (const auto& cpus : machine.numa_nodes) numa.push_back(doctor::ranges_text(cpus));
  OrderedJson ports = OrderedJson::array();
  for (const auto& port : machine.fabric_ports)
    ports.push_back(fmt::format("{} {} {}", port.name, port.state, port.rate));
  return {{"kernel", machine.kernel},
          {"cpu_model", machine.cpu_model},
          {"numa_nodes", numa},
          {"cpu_governor", machine.governor},
          {"cpu_limit", machine.cpu_limit},
          {"memory_bytes", machine.memory_bytes},
          {"memory_available_bytes", machine.available_bytes},
          {"memory_limit_bytes", machine.memory_limit_bytes},
          {"shared_memory_free_bytes", machine.shared_memory_free_bytes},
          {"huge_pages", machine.huge_pages},
          {"network_adapters", ports},
          {"gpu_driver", machine.gpu_driver}};
}

OrderedJson gpus_json(const ProcessFacts& facts) {
  OrderedJson gpus = OrderedJson::array();
  for (const auto& gpu : facts.gpus.gpus) gpus.push_back(fmt::format("{} {}", gpu.name, gpu.bus_id));
  OrderedJson json{{"gpus", gpus}};
  if (!facts.gpu_problem.empty()) json["gpu_problem"] = facts.gpu_problem;
  if (gpus.empty()) return json;
  json["gpu_peer_access"] = facts.gpus.peer_access;
  json["cuda_of_driver"] = facts.gpus.driver;
  json["cuda"] = facts.gpus.runtime;
  json["nccl"] = facts.gpus.nccl;
  json["nccl_plugin"] = facts.nccl_plugin;
  return json;
}

OrderedJson env_json(const comm::MpiSession& session) {
  const ProcessFacts facts = doctor::this_process(session);
  OrderedJson json{{"ddpm", facts.versions.at("ddpm")},
                   {"program_sha256", facts.versions.at("program")},
                   {"libtorch", facts.versions.at("libtorch")},
                   {"libtorch_file", facts.libtorch_file},
                   {"mpi", facts.versions.at("mpi")},
                   {"hdf5", facts.versions.at("hdf5")},
                   {"cpu_capability", facts.versions.at("cpu_capability")},
                   {"cpus_online", device::host_cpu_count()},
                   {"cpus_of_this_rank", facts.cpus.size()},
                   {"affinity", doctor::ranges_text(facts.cpus)},
                   {"threads", facts.threads},
                   {"ranks", session.size()},
                   {"ranks_on_this_host", session.local_size()},
                   {"host", session.host_name()},
                   {"launcher", facts.launcher}};
  json.update(machine_json(facts.machine));
  json.update(gpus_json(facts));
  json["limits"] = OrderedJson(base::Json(facts.limits));
  json["environment"] = OrderedJson(base::Json(facts.environment));
  return json;
}

/// Prints a line for each value, and for each part of a value that has parts.
std::string env_text(const OrderedJson& json) {
  constexpr std::size_t kColumn = 26;
  std::string text;
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      text += key + "\n";
      for (const auto& [name, part] : value.items()) {
        text +=
            fmt::format("  {:<{}} {}\n", name, kColumn - 2, part.is_string() ? part.get<std::string>() : dump(part));
      }
    } else {
      text += fmt::format("{:<{}} {}\n", key, kColumn, value.is_string() ? value.get<std::string>() : dump(value));
    }
  }
  return text;
}

void run_env(bool as_json, Context& context) {
  const OrderedJson json = context.session.rank() == 0 ? env_json(context.session) : OrderedJson();
  print(context, as_json ? dump(json) : env_text(json));
}

}  // namespace

void add_env_command(const Subcommand& program, Command& command) {
  const Subcommand env =
      program.add_subcommand("env", "Versions, hardware and limits of one process, to paste into an issue");
  auto as_json = std::make_shared<bool>(false);
  env.add_flag("--json", *as_json, "One JSON object on stdout");
  env.on_chosen([as_json, &command] { command.run = [as_json](Context& context) { run_env(*as_json, context); }; });
}

}  // namespace ddpm::cli
