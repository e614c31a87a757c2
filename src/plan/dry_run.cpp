#include "plan/dry_run.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/text_table.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "data/stage.h"
#include "denoise/adapter_base.h"
#include "denoise/image_values.h"
#include "denoise/record_images.h"
#include "denoise/unet_tensors.h"
#include "interop/diffusers_reader.h"
#include "layout/batch_layout.h"
#include "nn/unet2d.h"
#include "plan/machine_here.h"
#include "plan/plan_request.h"
#include "plan/report.h"
#include "run/placement.h"
#include "run/post_hoc_average.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "run/run_start.h"
#include "run/snapshot.h"
#include "train/after_validation.h"
#include "train/base_weights.h"
#include "train/config.h"
#include "train/first_weights.h"
#include "train/run_end.h"
#include "train/sample_grids.h"
#include "train/task.h"
#include "train/training_set.h"
#include "train/validation.h"

namespace ddpm::plan {
namespace {

using base::counted;
using base::grouped;

/// The first ranks of a group, the first of the next, and the last: enough to see the pattern.
std::set<int64_t> example_ranks(const Arrangement& a) {
  std::set<int64_t> ranks;
  for (const int64_t rank : {int64_t{0}, int64_t{1}, a.shard_size() - 1, a.shard_size(), a.ranks() - 1}) {
    if (rank >= 0 && rank < a.ranks()) ranks.insert(rank);
  }
  return ranks;
}

std::string inclusive(layout::Range range) {
  return range.size() == 0 ? "none" : fmt::format("{} to {}", range.begin, range.end - 1);
}

std::string owners_text(const ModelSizes& model, const Arrangement& a) {
  const layout::Mesh mesh = a.mesh();
  const layout::BatchLayout batch = a.parallelism.batch(mesh);
  const layout::ShardLayout state = shard_layout(model, a);
  using base::Align;
  base::TextTable table({Align::right, Align::left, Align::left, Align::left, Align::left}, 2, "  ");
  table.add({"rank", "images of a step", "the first of them at once", "of each", "optimizer state and averages"});
  int64_t previous = -1;
  for (const int64_t rank : example_ranks(a)) {
    if (rank > previous + 1) table.add({"..."});
    previous = rank;
    const layout::Range first = batch.positions(mesh.coordinate(rank, layout::kDataParallel), 0);
    const layout::Range all{first.begin, first.begin + a.parallelism.global_size / a.data_parallel_size()};
    const std::string share =
        a.parallelism.zero_stage == 0
            ? "all"
            : fmt::format("part {} of {}", mesh.coordinate(rank, layout::Axis::shard), a.shard_size());
    const std::string tile =
        a.parallelism.tiles > 1
            ? fmt::format("tile {} of {}", mesh.coordinate(rank, layout::Axis::spatial), a.parallelism.tiles)
            : "whole images";
    const std::string channels =
        a.parallelism.tensor_size > 1
            ? fmt::format(" of channel part {} of {}", mesh.coordinate(rank, layout::Axis::tensor),
                          a.parallelism.tensor_size)
            : "";
    const bool pipeline = a.parallelism.pipeline_size > 1;
    const std::string stage = pipeline
                                  ? fmt::format(" of stage {} of {}", mesh.coordinate(rank, layout::Axis::pipeline),
                                                a.parallelism.pipeline_size)
                                  : "";
    table.add({std::to_string(rank), inclusive(all), inclusive(first), tile,
               fmt::format("{}{}{}: {}{} elements", share, channels, stage, pipeline ? "at most " : "",
                           grouped(state.shard_size()))});
  }
  return table.text();
}

std::string batch_text(const Arrangement& a) {
  const layout::Parallelism& p = a.parallelism;
  std::string text = fmt::format("Batch    {} = {} per step{}\n{}", p.batch_text(a.ranks(), "image"), p.global_size,
                                 p.islands_text(a.ranks()), pipeline_text(a));
  for (const std::string& line : layout::warnings(p, a.ranks())) text += fmt::format("Warning  {}\n", line);
  return text;
}

std::string state_text(const ModelSizes& model, const Arrangement& a) {
  const layout::ShardLayout cut = shard_layout(model, a);
  const bool in_stages = a.parallelism.pipeline_size > 1;
  const bool in_parts = a.parallelism.tensor_size > 1;
  const char* held = in_stages && in_parts ? "its part of its stage"
                     : in_stages           ? "its stage"
                     : in_parts            ? "its part"
                                           : "it";
  std::string text = a.parallelism.zero_stage == 0
                         ? fmt::format("State    every rank holds all of {}", held)
                         : fmt::format("State    ZeRO {}: {}, each over {}", a.parallelism.zero_stage,
                                       counted(a.mesh().degree(layout::kReplicas | layout::Axis::island), "set"),
                                       counted(a.shard_size(), "rank"));
  return text + fmt::format("; {}{} elements with padding, communicated in {}\n",
                            a.parallelism.pipeline_size > 1 ? "at most " : "", grouped(cut.size()),
                            counted(static_cast<int64_t>(cut.segments().size()),
                                    a.parallelism.zero_stage == 3 ? "unit" : "bucket"));
}

std::string images_text(const data::Dataset& dataset, const train::FittedModel& model) {
  const denoise::Patch& patch = model.patch;
  const data::ImageFormat image = dataset.image();
  return fmt::format("Images   {} of {} × {} in {}{}\n", grouped(dataset.size()), data::size_text(image),
                     image.channels, dataset.path().string(),
                     patch.cuts() ? fmt::format(", windows of {} of each{}", data::size_text(patch.window),
                                                train::reads_windows(model, dataset) ? ", read without the rest" : "")
                                  : "");
}

/// A line for each of the first channels of a float32 set.
std::string values_text(const std::optional<denoise::ImageValues>& values) {
  constexpr std::size_t kShown = 8;
  if (!values) return "";
  std::string text = fmt::format("Values   as {} show:\n", values->origin);
  const std::size_t shown = std::min(kShown, values->channels.size());
  for (std::size_t c = 0; c < shown; ++c) {
    const data::ChannelStatistics& s = values->channels[c];
    text += fmt::format("         {}: mean {:.4g}, deviation {:.4g}, from {:.4g} to {:.4g}\n", values->names[c], s.mean,
                        s.std, s.min, s.max);
  }
  const std::size_t others = values->channels.size() - shown;
  return text + (others > 0 ? fmt::format("         and {} more channels\n", others) : "");
}

std::string duration_text(const train::Config& config, const data::Dataset& dataset) {
  const int64_t steps = train::steps_on(dataset, config);
  const double epochs = static_cast<double>(steps) * static_cast<double>(config.batch.global_size) /
                        static_cast<double>(data::images_per_epoch(dataset.parts()));
  return fmt::format("Steps    {}: {:.4g} epochs\n", grouped(steps), epochs);
}

struct Beginning {
  std::optional<checkpoint::Checkpoint> checkpoint;  ///< that training would resume from; none: it would begin anew
  bool complete = false;                             ///< there is nothing left to do
};

/// Finds out where Trainer::run would begin. `validation_set`: the name of what it would validate on, or "".
/// Collective.
Beginning find_beginning(const train::Config& config, const run::Runtime& runtime, const run::RunFolder& run,
                         const data::Dataset& dataset, const std::string& validation_set) {
  comm::Communicator& world = runtime.session.world();
  checkpoint::CheckpointStore store(runtime.files, world, run.path(), runtime.log);
  train::AfterValidation after_validation(config.early_stopping, validation_set, runtime.files, store, world,
                                          runtime.log);
  const auto callbacks = after_validation.callbacks();
  Beginning beginning{.checkpoint = run::Resume(config.checkpoint.resume).find(run, store, runtime.files, world)};
  if (beginning.checkpoint) {
    for (train::Callback* callback : callbacks) callback->resume(*beginning.checkpoint);
  }
  beginning.complete = train::is_done(run, beginning.checkpoint, train::steps_on(dataset, config), callbacks);
  return beginning;
}

/// Refuses the weights beside adapters where training would, without reading them: the model may need more memory than
/// this host has, as with the next ones. Collective.
void expect_base_weights(const train::Config& config, const nn::UNet2D& unet, comm::Communicator& world) {
  if (config.model.lora.rank == 0) return;
  const base::Path folder = train::find_base(config, world);
  comm::do_on_root(world, [&] {
    denoise::expect_same_function(folder, unet.config());
    const interop::UNetWeights readable(folder, denoise::expected_shapes(unet));
  });
}

/// Refuses likewise all weights that training could not begin with: those of `checkpoint`, or of a new run. Collective.
void expect_weights(const train::Config& config, const run::Runtime& runtime, const data::Dataset& dataset,
                    const train::FittedModel& model, const std::optional<checkpoint::Checkpoint>& checkpoint) {
  comm::Communicator& world = runtime.session.world();
  const nn::UNet2D unet(model.unet);
  const denoise::ImageRecord images = denoise::record_images(dataset, config.data.positions, model.patch);
  expect_base_weights(config, unet, world);
  if (checkpoint) {
    comm::agree(world, [&] {
      train::expect_images_of(*checkpoint, config, dataset, images);
      run::expect_power_averages(run::PowerAverages::of(config.ema), *checkpoint);
      run::expect_restorable(denoise::model_tensors(unet), config.ema.count(), *checkpoint);
    });
  } else {
    (void)train::open_first_weights(config, unet, images, runtime);
  }
}

/// Refuses a start for which there is no room, and one too many. Collective.
void expect_start(const train::Config& config, const run::Runtime& runtime, const base::Path& run,
                  const nn::UNet2DConfig& model, const std::optional<checkpoint::Checkpoint>& checkpoint,
                  int64_t islands) {
  comm::do_on_root(runtime.session.world(), [&] {
    const int64_t models = train::finished_models(config);
    const auto tensors = denoise::model_tensors(nn::UNet2D(model));
    const int64_t bytes = run::checkpoint_bytes(tensors, config.ema.count(), models, islands);
    run::expect_startable(runtime.files, run, bytes, models, checkpoint ? checkpoint->manifest.step : 0, config.fault);
  });
}

std::string run_text(const run::RunFolder& run, const Beginning& beginning) {
  const auto& checkpoint = beginning.checkpoint;
  return fmt::format("Run      {}, {}; nothing was written\n", run.path().string(),
                     beginning.complete ? fmt::format("which is done at step {}", checkpoint->manifest.step)
                     : checkpoint       ? fmt::format("which would continue from {}", checkpoint->directory.string())
                     : run.resumes()    ? "which would be resumed"
                                        : "new");
}

/// What comes to training from its data.
struct DataFacts {
  std::string text;            ///< images, their values, the duration, validation and samples
  std::string validation_set;  ///< the name of what it validates on; "": nothing
};

/// Collective.
DataFacts data_facts(const train::Config& config, data::Dataset& dataset, const train::FittedModel& model,
                     const run::Runtime& runtime) {
  const auto values = denoise::image_values(dataset, runtime.session.world());
  train::warn_of_set(config, dataset, values, runtime.log);
  std::string validation_set;
  std::string text = images_text(dataset, model) + values_text(values);
  comm::agree(runtime.session.world(), [&] { text += duration_text(config, dataset); });
  train::warn_of_keys(config, runtime.log);
  if (config.validation.every_steps > 0) {
    denoise::ValidationSet validation =
        train::open_validation_set(config, dataset, model, at::kCPU, /*mesh=*/{}, runtime.session.world());
    text += fmt::format("Validate {} every {}\n", counted(validation.size(), "image"),
                        counted(config.validation.every_steps, "step"));
    validation_set = validation.name();
    validation.close();
  }
  if (config.sample.every_steps > 0) {
    const auto sampler = config.sample.sampler(config.diffusion.scheduler);
    text += fmt::format("Sample   {} every {}, by {} in {}\n", counted(config.sample.count, "image"),
                        counted(config.sample.every_steps, "step"), base::name_of(sampler.scheduler),
                        counted(sampler.steps, "step"));
  }
  return {std::move(text), std::move(validation_set)};
}

}  // namespace

std::string dry_run(train::Configuration& configuration, const run::Runtime& runtime, int64_t ranks) {
  const train::Config& config = configuration.values();
  comm::Communicator& world = runtime.session.world();
  Arrangement arrangement;
  comm::agree(world, [&] {
    const std::vector<std::string> refusals = layout::refusals(run::parallelism_of(config), ranks);
    if (!refusals.empty()) throw base::ConfigError("{}", fmt::join(refusals, "; also: "));
    arrangement = arrangement_of(config, 1, ranks);
  });

  const auto sources = data::train_sources(config.data);
  if (config.data.stage) {
    comm::agree(world, [&] {
      for (const auto& source : sources) data::expect_stageable(source.path);
    });
  }
  data::Dataset dataset = data::Dataset::open(world, sources, data::dataset_options(config.data));
  const MachineHere here = machine_here(config.run.device, runtime);
  Request request;
  train::FittedModel model;
  comm::agree(world, [&] {
    model = train::fitted_model(config, dataset);
    train::expect_drawable(config, model);
    request = plan_request(config, model.unet, model.patch.window, StoredSizes::of(config, model.patch, dataset),
                           {.nodes = 1, .ranks_per_node = ranks, .machine = here.name, .on_host = here.on_host});
  });
  train::settle_set(configuration, dataset, model, at::kCPU, runtime);
  const run::RunFolder run(runtime.files, world, runtime.log, config.run.directory, configuration.schema());
  const DataFacts facts = data_facts(config, dataset, model, runtime);
  const Beginning beginning = find_beginning(config, runtime, run, dataset, facts.validation_set);
  if (!beginning.complete) {
    expect_weights(config, runtime, dataset, model, beginning.checkpoint);
    expect_start(config, runtime, run.path(), model.unet, beginning.checkpoint, arrangement.islands());
  }
  arrangement = request.given;
  const Candidate given = predict(request, arrangement);

  std::string text = run_text(run, beginning) + facts.text;
  text += fmt::format("Model    {}\n", parameters_text(request.model));
  text += batch_text(arrangement) + state_text(request.model, arrangement);
  text += "\nWho owns what\n" + owners_text(request.model, arrangement);
  text += "\nMemory of a rank\n" + memory_text(given.memory);
  if (arrangement.held_bytes > 0 && !arrangement.on_device && ranks > 1) {
    text += "  data.hold is shared as if all ranks were on one host; `ddpm plan` knows of --nodes\n";
  }
  text += "\nCommunication of a rank in one step\n" + traffic_text(given.traffic);
  dataset.close(world);
  return text;
}

}  // namespace ddpm::plan
