#include "cli/bench.h"

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/named.h"
#include "base/version.h"
#include "bench/comm_bench.h"
#include "bench/io_bench.h"
#include "bench/precision_name.h"
#include "bench/sample_bench.h"
#include "bench/stage_bench.h"
#include "bench/step_bench.h"
#include "cli/bench_stages.h"
#include "cli/config_arguments.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "cli/subject.h"
#include "comm/collectives.h"
#include "diffusion/samplers.h"
#include "run/placement.h"

namespace ddpm::cli {
namespace {

using base::OrderedJson;
using bench::Spread;

struct BenchArguments : ConfigArguments {
  bool json = false;
};

void load(train::Configuration& configuration, Context& context, const BenchArguments& arguments) {
  comm::Communicator& world = context.session.world();
  comm::agree(world, [&] { configuration.load(context.files, arguments.files, arguments.overrides); });
  run::expect_same_program(configuration.schema(), world);
}

OrderedJson json_of(const Spread& spread) {
  return {{"median", spread.median}, {"lowest", spread.lowest}, {"highest", spread.highest}};
}

/// "median (lowest to highest)", each divided by `unit`.
std::string text_of(const Spread& spread, double unit, const char* name) {
  return fmt::format("{:.4g} {} ({:.4g} to {:.4g})", spread.median / unit, name, spread.lowest / unit,
                     spread.highest / unit);
}

// --- step -----------------------------------------------------------------------------------------------------------

std::string step_text(const bench::StepBench& bench) {
  const double total = std::accumulate(bench.parts.begin(), bench.parts.end(), 0.0);
  const std::string device_memory =
      bench.peak_device_bytes == 0
          ? ""
          : fmt::format(", {:.0f} MB of the GPU", static_cast<double>(bench.peak_device_bytes) / 1e6);
  const double memory = bench.limits.memory_bytes_per_second / 1e9;
  std::string text = fmt::format(
      "ddpm {}: {} x {}, {}, {} per step in micro-batches of {}; {} after {}\n"
      "{} per step, {}; {}, {:.0f} MB resident at most{}\n"
      "{:.2f} GFLOP per image: {:.1f} GFLOP/s, {:.0f} % of the best product's {:.1f}\n"
      "optimizer and averages: {:.1f} GB/s, {:.0f} % of {:.1f}, the best passes over as many bytes\n\n"
      "  means of steps and ranks\n",
      base::kVersion, base::counted(bench.ranks, "rank"), base::counted(bench.threads, "thread"),
      bench::precision_name(bench.mixed_precision), base::counted(bench.global_size, "image"), bench.micro_size,
      base::counted(bench.steps, "step"), bench.warm_up, text_of(bench.seconds_per_step, 1.0, "s"),
      text_of(bench.images_per_second, 1.0, "images/s"), base::counted(bench.parameters, "parameter"),
      static_cast<double>(bench.peak_memory_bytes) / 1e6, device_memory, bench.image_flops / 1e9,
      bench.image_flops * bench.images_per_second.median / 1e9, 100.0 * bench.compute_fraction(),
      bench.limits.matrix_flops / 1e9, memory * bench.update_fraction(), 100.0 * bench.update_fraction(), memory);
  for (std::size_t i = 0; i < bench.parts.size(); ++i) {
    text += fmt::format("  {:<10} {:9.2f} ms  {:5.1f} %\n", base::name_of(static_cast<engine::StepPart>(i)),
                        1e3 * bench.parts[i], 100.0 * bench.parts[i] / total);
  }
  return text + fmt::format(
                    "waiting in any part of the step: for images at most {:.2f} ms, for other ranks at most {:.2f} ms, "
                    "and in the mean of the steps of these parts {:.2f} ms\n",
                    1e3 * bench.data_wait, 1e3 * bench.comm_wait, 1e3 * bench.mean_comm_wait);
}

OrderedJson step_json(const bench::StepBench& bench) {
  OrderedJson parts;
  for (std::size_t i = 0; i < bench.parts.size(); ++i) {
    parts[std::string(base::name_of(static_cast<engine::StepPart>(i)))] = bench.parts[i];
  }
  return {{"version", base::kVersion},
          {"ranks", bench.ranks},
          {"threads_per_rank", bench.threads},
          {"precision", bench::precision_name(bench.mixed_precision)},
          {"global_size", bench.global_size},
          {"micro_size", bench.micro_size},
          {"warm_up", bench.warm_up},
          {"steps", bench.steps},
          {"images_per_second", bench.images_per_second.median},
          {"seconds_per_step", bench.seconds_per_step.median},
          {"images_per_second_spread", json_of(bench.images_per_second)},
          {"seconds_per_step_spread", json_of(bench.seconds_per_step)},
          {"seconds", parts},
          {"data_wait_seconds", bench.data_wait},
          {"comm_wait_seconds", bench.comm_wait},
          {"mean_comm_wait_seconds", bench.mean_comm_wait},
          {"parameters", bench.parameters},
          {"peak_memory_bytes", bench.peak_memory_bytes},
          {"peak_device_bytes", bench.peak_device_bytes},
          {"flops_per_image", bench.image_flops},
          {"flops_per_second", bench.image_flops * bench.images_per_second.median},
          {"matrix_flops_per_second", bench.limits.matrix_flops},
          {"compute_fraction", bench.compute_fraction()},
          {"update_bytes", bench.update_bytes},
          {"memory_bytes_per_second", bench.limits.memory_bytes_per_second},
          {"update_fraction", bench.update_fraction()}};
}

struct StepArguments : BenchArguments {
  bench::StepBenchOptions options;
};

void run_step(Context& context, const StepArguments& arguments) {
  train::Configuration configuration;
  load(configuration, context, arguments);
  const auto bench = bench::bench_step(configuration, context, arguments.options);
  print(context, arguments.json ? dump(step_json(bench)) : step_text(bench));
}

// --- comm -----------------------------------------------------------------------------------------------------------

std::string comm_text(const bench::CommBench& bench) {
  std::string text =
      fmt::format("{} on {}, {} memory; a small message takes {} one way\n\n", base::counted(bench.ranks, "rank"),
                  base::counted(bench.hosts, "host"), bench.device, text_of(bench.latency, 1e-6, "us"));
  text += fmt::format("{:<15} {:>10}  {:>10} {:>10} {:>10}  {:>8}  {:>10}\n", "", "KiB", "median us", "lowest",
                      "highest", "GB/s", "fit us");
  for (const auto& one : bench.times) {
    text +=
        fmt::format("{:<15} {:>10.0f}  {:>10.1f} {:>10.1f} {:>10.1f}  {:>8.2f}  {:>10.1f}\n", base::name_of(one.kind),
                    static_cast<double>(one.bytes) / 1024.0, one.seconds.median * 1e6, one.seconds.lowest * 1e6,
                    one.seconds.highest * 1e6, one.bytes_per_second(bench.ranks) / 1e9, one.predicted * 1e6);
  }
  return text + fmt::format("\nfit of a ring: alpha {:.2f} us per message, {:.2f} GB/s\n", bench.fit.alpha * 1e6,
                            1e-9 / bench.fit.beta);
}

OrderedJson comm_json(const bench::CommBench& bench) {
  OrderedJson times = OrderedJson::array();
  for (const auto& one : bench.times) {
    times.push_back({{"kind", base::name_of(one.kind)},
                     {"bytes", one.bytes},
                     {"seconds", json_of(one.seconds)},
                     {"bytes_per_second", one.bytes_per_second(bench.ranks)},
                     {"fit_seconds", one.predicted}});
  }
  return {{"ranks", bench.ranks},
          {"hosts", bench.hosts},
          {"device", bench.device},
          {"latency_seconds", json_of(bench.latency)},
          {"alpha_seconds", bench.fit.alpha},
          {"beta_seconds_per_byte", bench.fit.beta},
          {"collectives", times}};
}

struct CommArguments : BenchArguments {
  bench::CommBenchOptions options;
  double max_mib = 64.0;
};

void run_comm(Context& context, CommArguments arguments) {
  auto device = device::DeviceChoice::automatic;
  comm::agree(context.session.world(), [&] {
    if (!arguments.files.empty() || arguments.overrides.empty()) return;
    throw base::ConfigError("{}: only with a configuration before it can its keys be set", arguments.overrides.front());
  });
  if (!arguments.files.empty()) {
    train::Configuration configuration;
    load(configuration, context, arguments);
    device = configuration.values().run.device;
  }
  arguments.options.max_bytes = static_cast<int64_t>(arguments.max_mib * 1024.0 * 1024.0);
  const auto bench = bench::bench_comm(device, context, arguments.options);
  print(context, arguments.json ? dump(comm_json(bench)) : comm_text(bench));
}

// --- io -------------------------------------------------------------------------------------------------------------

std::string io_text(const bench::IoBench& bench) {
  const auto line = [&bench](const char* what, const Spread& rate, int64_t image_bytes) {
    return fmt::format("  {:<32} {:>42}  {:9.0f} images/s  {:5.1f} %\n", what, text_of(rate, 1e6, "MB/s"),
                       rate.median / static_cast<double>(image_bytes), 100.0 * rate.median / bench.raw.median);
  };
  return fmt::format("{} of {} bytes per pass, all ranks together\n\n", base::counted(bench.images, "image"),
                     bench.image_bytes) +
         line("shards' bytes, one after another", bench.raw, bench.image_bytes) +
         line("images in stored order", bench.blocks, bench.image_bytes) +
         line("micro-batches, as in training", bench.training, bench.read_bytes);
}

OrderedJson io_json(const bench::IoBench& bench, bool cold) {
  return {{"images_per_second", bench.images_per_second()},
          {"images", bench.images},
          {"image_bytes", bench.image_bytes},
          {"read_bytes", bench.read_bytes},
          {"cold", cold},
          {"raw_bytes_per_second", json_of(bench.raw)},
          {"block_bytes_per_second", json_of(bench.blocks)},
          {"training_bytes_per_second", json_of(bench.training)},
          {"block_fraction", bench.blocks.median / bench.raw.median},
          {"training_fraction", bench.training.median / bench.raw.median}};
}

struct IoArguments : BenchArguments {
  bench::IoBenchOptions options;
  bool warm = false;
  int64_t max_mib = 2048;
};

void run_io(Context& context, IoArguments arguments) {
  train::Configuration configuration;
  load(configuration, context, arguments);
  arguments.options.cold = !arguments.warm;
  arguments.options.max_bytes = arguments.max_mib << 20U;
  const auto bench = bench::bench_io(configuration, context, arguments.options);
  print(context, arguments.json ? dump(io_json(bench, arguments.options.cold)) : io_text(bench));
}

// --- sample ---------------------------------------------------------------------------------------------------------

struct SampleBenchArguments : BenchArguments {
  bench::SampleBenchOptions options;
};

std::string sample_text(const bench::SampleBench& bench) {
  return fmt::format("{} x {}, {}, {} of {} in {} of the sampler\n{}, {} per step of the sampler\n",
                     base::counted(bench.ranks, "rank"), base::counted(bench.threads, "thread"), bench.precision,
                     bench.ranks == 1 ? "a batch" : "batches", base::counted(bench.batch, "image"),
                     base::counted(bench.steps, "step"), text_of(bench.images_per_second, 1.0, "images/s"),
                     text_of(bench.seconds_per_step, 1.0, "s"));
}

OrderedJson sample_json(const bench::SampleBench& bench) {
  return {{"images_per_second", bench.images_per_second.median},
          {"seconds_per_step", bench.seconds_per_step.median},
          {"images_per_second_spread", json_of(bench.images_per_second)},
          {"seconds_per_step_spread", json_of(bench.seconds_per_step)},
          {"ranks", bench.ranks},
          {"threads_per_rank", bench.threads},
          {"precision", bench.precision},
          {"steps", bench.steps},
          {"batch", bench.batch}};
}

void run_sample(Context& context, const SampleBenchArguments& arguments) {
  train::Configuration configuration;
  load(configuration, context, arguments);
  const train::Config& config = configuration.values();
  const nn::UNet2DConfig model = config.model.sample_size.empty() ? find_subject(config, context).model : config.model;
  const auto bench = bench::bench_sample(config, model, context, arguments.options);
  print(context, arguments.json ? dump(sample_json(bench)) : sample_text(bench));
}

// --- stages ---------------------------------------------------------------------------------------------------------

struct StageArguments : BenchArguments {
  bench::StageBenchOptions options;
  std::optional<int64_t> stages;
};

void run_stages(Context& context, StageArguments arguments) {
  train::Configuration configuration;
  load(configuration, context, arguments);
  train::Config uncut = configuration.values();
  arguments.options.stages = arguments.stages.value_or(uncut.parallel.pipeline_size);
  uncut.parallel = {};
  const Subject subject = find_subject(uncut, context);
  const auto bench = bench::bench_stages(uncut, subject.model, subject.image, context, arguments.options);
  print(context, arguments.json ? dump(stages_json(bench)) : stages_text(bench));
}

// --- command line ---------------------------------------------------------------------------------------------------

/// CONFIG, its overrides and --json; `run` gets the arguments.
template <typename Arguments>
Subcommand declare(const Subcommand& bench, Command& command, const std::string& name, const std::string& help,
                   const std::shared_ptr<Arguments>& arguments, const std::function<void(Context&, Arguments)>& run) {
  const Subcommand one = bench.add_subcommand(name, help);
  add_config_arguments(one, arguments, /*required=*/false);
  add_json_flag(one, arguments->json);
  one.footer("Any key of the configuration can be set here too: --section.key VALUE.");
  one.on_chosen([&command, one, arguments, run] {
    arguments->overrides = one.config_pairs();
    command = {.run = [arguments, run](Context& context) { run(context, *arguments); }, .shares_work = true};
  });
  return one;
}

}  // namespace

void add_bench_command(const Subcommand& program, Command& command) {
  const Subcommand bench =
      program.add_subcommand("bench", "Measure training steps, stages, communication, reading, or sampling");
  bench.require_subcommand();
  bench.footer("Runs on all ranks, and writes no file.");
  constexpr int64_t kMost = 1'000'000;

  const auto step = std::make_shared<StepArguments>();
  Subcommand one = declare<StepArguments>(
      bench, command, "step", "Seconds of a training step, by part, beside what the machine could do", step, run_step);
  one.add("--steps", &step->options.steps, "Steps that are measured").accept(IntegerRange{1, kMost}).show_default();
  one.add("--warm-up", &step->options.warm_up, "Steps before them; on a GPU at least 3")
      .accept(IntegerRange{0, kMost})
      .show_default();

  const auto comm = std::make_shared<CommArguments>();
  one = declare<CommArguments>(
      bench, command, "comm", "Collectives between all ranks, 2 or more, and the alpha and beta that `ddpm plan` needs",
      comm, run_comm);
  one.add("--repeats", &comm->options.repeats, "Measurements of each size")
      .accept(IntegerRange{1, kMost})
      .show_default();
  one.add("--max-mib", &comm->max_mib, "The largest buffer, in MiB")
      .accept(NumberRange{1.0 / 64.0, 65536.0})
      .show_default();

  const auto sample = std::make_shared<SampleBenchArguments>();
  one = declare<SampleBenchArguments>(bench, command, "sample",
                                      "Drawing images with the configuration's model, untrained", sample, run_sample);
  one.add("--scheduler", &sample->options.scheduler,
          fmt::format("Sampler; otherwise {}", diffusion::default_samplers_text(bench::kSamplerOfDdpm)));
  one.add("--steps", &sample->options.steps, "Steps of the sampler").accept(IntegerRange{1, kMost}).show_default();
  one.add("--batch", &sample->options.batch, "Images of each rank").accept(IntegerRange{1, kMost}).show_default();
  one.add("--repeats", &sample->options.repeats, "Batches that are measured, after one that is not")
      .accept(IntegerRange{1, kMost})
      .show_default();

  const auto stages = std::make_shared<StageArguments>();
  one = declare<StageArguments>(
      bench, command, "stages",
      "Each unit of the model alone, and the parallel.stage_units that makes stages equally long", stages, run_stages);
  one.add("--stages", &stages->stages, "Stages of the pipeline; parallel.pipeline_size if not set")
      .accept(IntegerRange{1, kMost});
  one.add("--repeats", &stages->options.repeats, "Passes of each unit, of which the fastest counts")
      .accept(IntegerRange{1, kMost})
      .show_default();

  const auto io = std::make_shared<IoArguments>();
  one = declare<IoArguments>(bench, command, "io", "Reading data.train as training does, beside reading its bytes", io,
                             run_io);
  one.add("--repeats", &io->options.repeats, "Passes of each kind").accept(IntegerRange{1, kMost}).show_default();
  one.add("--max-mib", &io->max_mib, "Read no more than this per pass, in MiB")
      .accept(IntegerRange{1, int64_t{1} << 30})
      .show_default();
  one.add_flag("--warm", io->warm, "Leave what the kernel holds of the files");
}

}  // namespace ddpm::cli
