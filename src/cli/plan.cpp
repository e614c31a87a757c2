#include "cli/plan.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/named.h"
#include "cli/config_arguments.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "cli/subject.h"
#include "comm/collectives.h"
#include "plan/machine.h"
#include "plan/machine_here.h"
#include "plan/meshes.h"
#include "plan/plan_request.h"
#include "plan/report.h"
#include "plan/zero_table.h"
#include "run/placement.h"

namespace ddpm::cli {
namespace {

struct PlanArguments : ConfigArguments {
  plan::PlanPlace place;
  std::optional<double> parameters;  ///< only the state of so many is planned, without a configuration
  int64_t ranks = 0;                 ///< ranks that share the state of the parameters
  bool json = false;
  bool meshes = false;
};

/// "--machine.KEY=VALUE" goes to the machine, every other pair to the configuration.
void split_overrides(const std::vector<std::string>& pairs, PlanArguments& options) {
  for (const std::string& word : pairs) {
    const bool machine = word.starts_with("--machine.");
    (machine ? options.place.overrides : options.overrides).push_back(word);
  }
}

/// Plans for the machine that was named, or else for that of this node. Returns what messages call it.
std::string choose_machine(const train::Config& config, const Context& context, plan::PlanPlace& place) {
  const plan::MachineHere here = plan::machine_here(config.run.device, context);
  if (!place.machine.empty()) {
    place.on_host = here.on_host && !plan::is_gpu(place.machine);
    return "--machine " + place.machine;
  }
  place.machine = here.name;
  place.gpu_gib = here.memory_gib;
  place.on_host = here.on_host;
  context.log.info("{}; --machine names another, --machine.KEY VALUE sets what was measured",
                   plan::constants_text(here));
  return fmt::format("the {} here (--machine names another)", here.label);
}

/// Throws ConfigError where no number of nodes can run the configuration.
void expect_some(const plan::Request& request, const std::vector<plan::Candidate>& all, const plan::PlanPlace& place) {
  if (std::ranges::any_of(all, [](const auto& candidate) { return candidate.refusal.empty(); })) return;
  throw base::ConfigError("--nodes {} --gpus-per-node {}: {} run this configuration: {}", place.nodes,
                          place.ranks_per_node,
                          place.nodes == 1 ? "one node cannot" : "no number of nodes up to that can",
                          plan::in_own_stage(request, all, all.front().arrangement.nodes).refusal);
}

/// A GPU that is too old for bf16 refuses it in training as well. `label`: what messages call the machine.
void expect_precision(const train::Config& config, const std::string& machine, const std::string& label) {
  using optim::MixedPrecision;
  const MixedPrecision usual = plan::usual_precision(machine);
  if (config.precision.mixed_precision != MixedPrecision::bf16 || usual == MixedPrecision::bf16) return;
  throw base::ConfigError("precision.mixed_precision = \"bf16\" on {}, which is older than bf16: take \"{}\"", label,
                          base::name_of(usual));
}

void run_plan(PlanArguments options, Context& context) {
  comm::Communicator& world = context.session.world();
  if (options.parameters) {
    comm::agree(world, [&] {
      if (*options.parameters == std::floor(*options.parameters)) return;
      throw base::ConfigError("--parameters {}: a whole number of parameters is wanted", *options.parameters);
    });
    print(context, options.json ? dump(plan::zero_json(*options.parameters, options.ranks))
                                : plan::zero_text(*options.parameters, options.ranks));
    return;
  }
  train::Configuration configuration;
  comm::agree(world, [&] {
    configuration.load(context.files, options.files, options.overrides);
    plan::arrangement_of(configuration.values(), options.place.nodes, options.place.ranks_per_node);
  });
  run::expect_same_program(configuration.schema(), world);
  const train::Config& config = configuration.values();
  const std::string machine = choose_machine(config, context, options.place);
  const Subject subject = find_subject(config, context);
  plan::Request request;
  std::vector<plan::Candidate> all;
  std::vector<plan::PlannedMesh> meshes;
  comm::agree(world, [&] {
    expect_precision(config, options.place.machine, machine);
    if (options.meshes) {
      meshes = plan::search_meshes(config, subject.model, subject.image, subject.stored, options.place);
      return;
    }
    request = plan::plan_request(config, subject.model, subject.image, subject.stored, options.place);
    all = plan::candidates(request);
    expect_some(request, all, options.place);
  });
  if (options.meshes) {
    const auto set = plan::arrangement_of(config, options.place.nodes, options.place.ranks_per_node).parallelism;
    return print(context, options.json ? dump({{"meshes", plan::json_of(meshes, set)}}) : plan::text_of(meshes, set));
  }
  print(context, options.json ? dump(plan::json_of(request, all)) : plan::text_of(request, all));
  if (!request.limit_bytes) context.log.info("--memory-gib M says what a rank has, so that it is seen what fits");
}

}  // namespace

void add_plan_command(const Subcommand& program, Command& command) {
  auto options = std::make_shared<PlanArguments>();
  const Subcommand plan = program.add_subcommand("plan", "Memory per rank and time per step, before a job is queued");
  const Option config = add_config_arguments(plan, options, /*required=*/false);
  const Option nodes = plan.add("--nodes", &options->place.nodes, "Nodes; 1, 2, 4, ... up to this are compared");
  nodes.accept(machine_counts());
  const Option gpus = plan.add("--gpus-per-node", &options->place.ranks_per_node, "GPUs of a node: its ranks");
  gpus.accept(machine_counts());
  const Option memory = plan.add("--memory-gib", &options->place.memory_gib, "Memory of a rank, in GiB");
  memory.accept(memory_gib_range());
  const Option machine = plan.add("--machine", &options->place.machine,
                                  plan::machine_names() + ", or a TOML file with measured constants");
  const Option parameters = plan.add("--parameters", &options->parameters,
                                     "Without CONFIG: bytes of the state of this many parameters on --ranks");
  parameters.accept(NumberRange{1.0, 1e15});
  for (const Option& other : {config, nodes, gpus, memory, machine}) parameters.excludes(other);
  const Option ranks = plan.add("--ranks", &options->ranks, "Ranks that share the state of --parameters");
  ranks.accept(IntegerRange{1, int64_t{1} << 40}).needs(parameters);
  parameters.needs(ranks);
  plan.add_flag("--meshes", options->meshes,
                "Compare meshes of all ranks instead: stages of a pipeline, tiles, parts of blocks, and ZeRO stages");
  add_json_flag(plan, options->json);
  plan.footer(
      "Any key of the configuration can be set here too: --section.key VALUE, and any constant of the machine:\n"
      "--machine.network_gb_per_s 12.5. docs/plan.md has the formulas and the constants.");
  plan.on_chosen([plan, options, &command, needed = std::vector{config, nodes, gpus}] {
    for (const Option& option : needed) {
      if (!options->parameters) option.expect_given();
    }
    split_overrides(plan.config_pairs(), *options);
    command.run = [options](Context& context) { run_plan(*options, context); };
  });
}

}  // namespace ddpm::cli
