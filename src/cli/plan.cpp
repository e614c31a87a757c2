#include "cli/plan.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/config_arguments.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "train/device.h"
#include "train/plan/report.h"
#include "train/plan_request.h"
#include "train/setup.h"

namespace ddpm::cli {
namespace {

struct Options : ConfigArguments {
  train::PlanPlace place;
  bool json = false;
};

/// The model that is trained, and its images.
struct Subject {
  nn::UNet2DConfig model;
  data::ImageFormat image;
};

/// "--machine.KEY=VALUE" goes to the machine, every other pair to the configuration.
void split_overrides(const std::vector<std::string>& pairs, Options& options) {
  for (const std::string& word : pairs) {
    const bool machine = word.starts_with("--machine.");
    (machine ? options.place.overrides : options.overrides).push_back(word);
  }
}

/// Images as the model wants them, where there is no data set yet.
Subject expected_subject(const nn::UNet2DConfig& model, const data::Path& path) {
  if (model.sample_size.empty()) {
    throw base::DatasetError("{}: there is no such data set; to plan without it, set model.sample_size", path.string());
  }
  Subject subject{.model = model,
                  .image = {model.sample_size.front(), model.sample_size.back(), model.in_channels, base::DType::u8}};
  const int64_t multiple = nn::size_multiple(model);
  if (subject.image.height % multiple != 0 || subject.image.width % multiple != 0) {
    throw base::ConfigError("model.sample_size = {} × {}: this model wants a multiple of {}", subject.image.height,
                            subject.image.width, multiple);
  }
  return subject;
}

Subject find_subject(const train::Config& config, const Context& context) {
  comm::Communicator& world = context.session.world();
  const data::Path path = data::train_path(config.data);
  const std::string there =
      comm::agree_on_root(world, [&] { return std::string(context.files.exists(path) ? "yes" : ""); });
  Subject subject;
  if (there.empty()) {
    comm::agree(world, [&] { subject = expected_subject(config.model, path); });
    context.log.info("{}: no data set there yet; images are taken to be as model.sample_size says", path.string());
    return subject;
  }
  data::Dataset dataset = data::Dataset::open(world, path, data::dataset_options(config.data));
  comm::agree(world, [&] { subject = {train::fit_model(config.model, dataset), dataset.image()}; });
  dataset.close(world);
  return subject;
}

/// The machine whose constants count: what was named, else what the run's device says.
void choose_machine(const train::Config& config, Context& context, train::PlanPlace& place) {
  const bool host =
      train::choose_device(config.run.device == "cuda" ? "auto" : config.run.device, context.session).is_cpu() &&
      config.run.device != "cuda";
  const bool named = !place.machine.empty();
  if (!named) place.machine = host ? "cpu" : "h100";
  const bool gpu = place.machine == "a100" || place.machine == "h100" || place.machine == "h200";
  place.on_host = host && !gpu;
  if (!named) {
    context.log.info("constants of machine \"{}\"; --machine names another, --machine.KEY VALUE sets what was measured",
                     place.machine);
  }
}

void run(Options options, Context& context) {
  comm::Communicator& world = context.session.world();
  train::Configuration configuration;
  comm::agree(world, [&] {
    configuration.load(options.files, options.overrides);
    train::arrangement_of(configuration.values(), options.place.nodes, options.place.ranks_per_node);
  });
  const train::Config& config = configuration.values();
  choose_machine(config, context, options.place);
  const Subject subject = find_subject(config, context);
  train::plan::Request request;
  comm::agree(world, [&] { request = train::plan_request(config, subject.model, subject.image, options.place); });
  const auto all = train::plan::candidates(request);
  print(context, options.json ? dump(train::plan::json_of(request, all)) : train::plan::text_of(request, all));
  if (!request.limit_bytes) context.log.info("--memory-gib M says what a rank has, so that it is seen what fits");
}

}  // namespace

void add_plan_command(CLI::App& app, Command& command) {
  auto options = std::make_shared<Options>();
  CLI::App* plan = app.add_subcommand("plan", "Memory per rank and time per step, before a job is queued");
  add_config_arguments(*plan, options, /*required=*/true);
  plan->add_option("--nodes", options->place.nodes, "Nodes; 1, 2, 4, ... up to this are compared")
      ->required()
      ->check(machine_counts());
  plan->add_option("--gpus-per-node", options->place.ranks_per_node, "GPUs of a node: its ranks")
      ->required()
      ->check(machine_counts());
  plan->add_option("--memory-gib", options->place.memory_gib, "Memory of a rank, in GiB")->check(memory_gib_range());
  plan->add_option("--machine", options->place.machine,
                   "cpu, a100, h100, h200, or a TOML file with measured constants");
  plan->add_flag("--json", options->json, "Print the result as one JSON object");
  plan->footer(
      "Any key of the configuration can be set here too: --section.key VALUE, and any constant of the machine:\n"
      "--machine.network_gb_per_s 12.5. docs/plan.md has the formulas and the constants.");
  plan->callback([plan, options, &command] {
    split_overrides(config_pairs(*plan), *options);
    command.run = [options](Context& context) { run(*options, context); };
  });
}

}  // namespace ddpm::cli
