#include "cli/config_new.h"

#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/machine_memory.h"
#include "base/named.h"
#include "base/shortened.h"
#include "cli/ranges.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "device/device_choice.h"
#include "plan/machine.h"
#include "plan/machine_here.h"
#include "plan/make_starter.h"
#include "plan/starter.h"

namespace ddpm::cli {
namespace {

using optim::MixedPrecision;

struct NewArguments {
  std::optional<std::string> data;
  std::optional<int64_t> nodes;
  std::optional<int64_t> gpus_per_node;
  std::optional<double> memory_gib;
  std::optional<std::string> output;
  std::optional<int64_t> global_batch;
  int64_t steps = 10000;
  std::optional<plan::StarterSize> model;
  std::string machine;
  std::string label;              ///< what messages call it
  std::optional<double> gpu_gib;  ///< memory of the GPU here, where it is that machine
  std::optional<std::string> precision;
  MixedPrecision usual_precision = MixedPrecision::no;  ///< what the machine usually trains in
};

OneOf precisions() { return {base::all_names<MixedPrecision>()}; }

/// Prints a question with its default and reads the answer: an empty line, or the end of the input, takes the default.
std::string ask(const std::string& question, const std::string& fallback) {
  std::cerr << question << (fallback.empty() ? "" : " [" + fallback + "]") << ": " << std::flush;
  std::string line;
  if (!std::getline(std::cin, line)) std::cerr << '\n';
  const std::string_view answer = base::trimmed(line, " \t\r");
  return answer.empty() ? fallback : std::string(answer);
}

/// Asks again after a value that the option would refuse; the end of the input takes the default.
template <typename T>
T ask_for(const std::string& question, const std::string& fallback, const Accepted& accepted) {
  for (;;) {
    const std::string text = ask(question, fallback);
    T value{};
    const std::string refusal = read_value(text, accepted, value);
    if (refusal.empty()) return value;
    if (!std::cin || text == fallback) throw base::ConfigError("{}: {}", question, refusal);
    std::cerr << "  " << refusal << '\n';
  }
}

/// What the ranks on this host may have of its memory together, in GiB.
double host_gib() { return static_cast<double>(base::read_machine_memory().most()) / (1024.0 * 1024.0 * 1024.0); }

std::string default_output(const std::string& data) {
  const std::string name = base::Path(data).lexically_normal().stem().string();
  const base::Path folder = base::Path(data) / "";
  const std::string stem = name.empty() ? folder.parent_path().filename().string() : name;
  return (stem.empty() || stem == "." ? "run" : stem) + ".toml";
}

/// Asks for what the flags leave open. On rank 0, before any other question is settled.
void interview(NewArguments& options, bool on_host) {
  if (!options.data) options.data = ask("Data set (a folder made by `ddpm data create`, or one .h5 file)", "");
  if (options.data->empty()) throw base::ConfigError("--data DATASET is wanted: the images to train on");
  if (!options.nodes) options.nodes = ask_for<int64_t>("Nodes", "1", machine_counts());
  if (!options.gpus_per_node) {
    options.gpus_per_node =
        ask_for<int64_t>(on_host ? "Ranks on each node" : "GPUs on each node", on_host ? "1" : "4", machine_counts());
  }
  if (!options.memory_gib) {
    const double gib = on_host           ? host_gib() / static_cast<double>(*options.gpus_per_node)
                       : options.gpu_gib ? *options.gpu_gib
                                         : plan::find_machine(options.machine, 1, 1).memory_gib;
    options.memory_gib = ask_for<double>("Memory of a rank in GiB", fmt::format("{:.3g}", gib), memory_gib_range());
  }
  if (!options.precision) {
    options.precision = ask_for<std::string>("Precision (no, bf16, fp16)",
                                             std::string(base::name_of(options.usual_precision)), precisions());
  }
  if (!options.output) options.output = ask("Write to", default_output(*options.data));
}

/// Rank 0's answers on all ranks.
void agree_on_answers(NewArguments& options, bool on_host, Context& context) {
  const std::string text = comm::agree_on_root(context.session.world(), [&] {
    if (!options.data) interview(options, on_host);
    if (!options.output) options.output = default_output(*options.data);
    if (context.files.exists(*options.output)) {
      throw base::OutputError("{} is there already, and is not overwritten: name another file with --output",
                              *options.output);
    }
    const auto gib = options.memory_gib ? base::Json(*options.memory_gib) : base::Json(nullptr);
    return base::Json{{"data", *options.data},
                      {"nodes", options.nodes.value_or(1)},
                      {"gpus_per_node", options.gpus_per_node.value_or(1)},
                      {"memory_gib", gib},
                      {"precision", options.precision.value_or(std::string(base::name_of(options.usual_precision)))},
                      {"output", *options.output}}
        .dump(-1, ' ', false, base::Json::error_handler_t::replace);
  });
  const base::Json answers = base::Json::parse(text);
  options.data = answers["data"].get<std::string>();
  options.nodes = answers["nodes"].get<int64_t>();
  options.gpus_per_node = answers["gpus_per_node"].get<int64_t>();
  if (!answers["memory_gib"].is_null()) options.memory_gib = answers["memory_gib"].get<double>();
  options.precision = answers["precision"].get<std::string>();
  options.output = answers["output"].get<std::string>();
}

/// The machine where none is named, that of this node, and the precision that suits it. Returns whether the ranks
/// compute on the host. Collective.
bool settle_machine(NewArguments& options, const Context& context) {
  const plan::MachineHere here = plan::machine_here(device::DeviceChoice::automatic, context);
  const bool named = !options.machine.empty();
  if (!named) {
    options.machine = here.name;
    options.gpu_gib = here.memory_gib;
  }
  options.label = named ? options.machine : here.label;
  const bool on_host = here.on_host && !plan::is_gpu(options.machine);
  options.usual_precision = on_host ? MixedPrecision::no : plan::usual_precision(options.machine);
  if (named) return on_host;
  if (on_host) {
    context.log.info(
        "no GPU here: this makes a configuration for CPUs; --machine a100, for example, makes one for GPUs");
  } else {
    context.log.info("{}; --machine names another", plan::constants_text(here));
  }
  return on_host;
}

void refuse_missing_bf16(const NewArguments& options) {
  if (options.precision != base::name_of(MixedPrecision::bf16) || options.usual_precision != MixedPrecision::fp16)
    return;
  throw base::ConfigError("--precision bf16: {} GPUs are older than bf16; take fp16", options.label);
}

plan::Starter make_starter(const base::FileSystem& files, const data::Dataset& dataset, const NewArguments& options,
                           bool on_host) {
  return plan::make_starter(files,
                            {.path = *options.data,
                             .image = dataset.image(),
                             .count = dataset.size(),
                             .classes = dataset.labels().empty() ? 0 : dataset.num_classes()},
                            {.nodes = *options.nodes,
                             .ranks_per_node = *options.gpus_per_node,
                             .machine = options.machine,
                             .on_host = on_host,
                             .memory_gib = options.memory_gib ? options.memory_gib : options.gpu_gib,
                             .size = options.model,
                             .global_size = options.global_batch,
                             .steps = options.steps,
                             .precision = base::find_named<MixedPrecision>(*options.precision).value(),
                             .run_directory = "runs/" + base::Path(*options.output).stem().string()});
}

void run_new(NewArguments options, Context& context) {
  comm::Communicator& world = context.session.world();
  const bool on_host = settle_machine(options, context);
  agree_on_answers(options, on_host, context);
  comm::agree(world, [&] {
    plan::refuse_too_many_ranks(*options.nodes, *options.gpus_per_node);
    refuse_missing_bf16(options);
  });
  data::Dataset dataset = data::Dataset::open(world, *options.data);
  plan::Starter starter;
  comm::agree(world, [&] { starter = make_starter(context.files, dataset, options, on_host); });
  comm::do_on_root(world, [&] {
    const auto file = context.files.create_exclusive(*options.output);
    file->write(toml_of(starter));
    file->close();
  });
  dataset.close(world);
  const auto& a = starter.arrangement;
  context.log.info("{} is written: {}, zero_stage {}", *options.output, a.parallelism.batch_text(a.ranks(), "image"),
                   a.parallelism.zero_stage);
  // mpirun would bind a single rank to one core.
  const std::string launch = a.ranks() > 1 ? fmt::format("mpirun -np {} ", a.ranks()) : "";
  context.log.info("next: {}ddpm train {}", launch, *options.output);
}

}  // namespace

void add_config_new_command(const Subcommand& config, Command& command) {
  auto options = std::make_shared<NewArguments>();
  const Subcommand made = config.add_subcommand("new", "Write a configuration for a data set and a machine");
  made.add("--data", &options->data, "Data set; without it, this and the rest is asked for");
  made.add("--nodes", &options->nodes, "Nodes (1)").accept(machine_counts());
  made.add("--gpus-per-node", &options->gpus_per_node, "GPUs of a node: its ranks (1)").accept(machine_counts());
  made.add("--memory-gib", &options->memory_gib, "Memory of a rank, in GiB").accept(memory_gib_range());
  made.add("--output", &options->output, "The file; it must not exist (the data set's name, .toml)");
  made.add("--global-batch", &options->global_batch, "Images per optimizer step (about 128; 32 on CPUs)")
      .accept(machine_counts());
  made.add("--steps", &options->steps, "Optimizer steps").accept(PositiveNumber{}).show_default();
  made.add("--model", &options->model, "small or medium (medium; small on CPUs)");
  made.add("--machine", &options->machine, plan::machine_names() + ", or a file: as for ddpm plan");
  made.add("--precision", &options->precision, "no, bf16 or fp16 (bf16, or fp16 on GPUs older than it; no on CPUs)")
      .accept(precisions());
  made.footer(
      "The layout has the lowest ZeRO stage that fits into the memory of a rank: `ddpm plan` shows the others.");
  made.on_chosen([options, &command] { command.run = [options](Context& context) { run_new(*options, context); }; });
}

}  // namespace ddpm::cli
