#include "train/task.h"

#include <utility>

#include "base/utf8.h"
#include "comm/collectives.h"
#include "data/hold.h"
#include "data/stage.h"
#include "data/valid_pixels.h"
#include "denoise/boundaries.h"
#include "denoise/record_images.h"
#include "denoise/recorded_fields.h"
#include "denoise/turns.h"
#include "device/threads.h"
#include "train/mean_source.h"
#include "train/run_end.h"

namespace ddpm::train {
namespace {

void settle_transforms(const Config& config, data::Dataset& dataset, const run::Runtime& runtime) {
  const base::Path run = config.run.directory;
  auto recorded = denoise::recorded_fields(run, dataset.content_hash(), runtime);
  if (recorded.empty() && config.data.continue_with_other) {
    recorded = denoise::fields_of_others(run, config.checkpoint.resume, dataset.info(), runtime);
  }
  data::settle_transforms(runtime.session.world(), dataset, config.data.normalize, recorded);
  comm::agree(runtime.session.world(),
              [&] { denoise::expect_no_grids(denoise::vectors_of(config.data.vectors), dataset.info().fields); });
}

void settle_clip_sample(Configuration& configuration, const data::Dataset& dataset, const run::Runtime& runtime) {
  const Config& config = configuration.values();
  const diffusion::SchedulerConfig& scheduler = config.diffusion.scheduler;
  if (scheduler.formulation != diffusion::Formulation::ddpm) return;
  // What a regression leaves of an image may be twice as far from zero as the image.
  const bool leftovers = config.diffusion.mean_model && !scheduler.clip_sample;
  configuration.set_clip_sample(!leftovers &&
                                denoise::settled_clip_sample(scheduler, dataset, config.run.directory, runtime));
}

}  // namespace

std::shared_ptr<const denoise::LoadedModel> settle_set(Configuration& configuration, data::Dataset& dataset,
                                                       const FittedModel& fitted, at::Device device,
                                                       const run::Runtime& runtime) {
  const Config& config = configuration.values();
  comm::Communicator& world = runtime.session.world();
  comm::agree(world, [&] { base::expect_utf8(dataset.name(), "the set that data.train names"); });
  data::expect_valid_pixels(world, dataset);
  settle_transforms(config, dataset, runtime);
  comm::expect_same(world, "dataset", dataset.content_hash());
  settle_clip_sample(configuration, dataset, runtime);
  return open_mean_model(config, dataset, fitted, runtime, device);
}

void warn_of_set(const Config& config, const data::Dataset& dataset, const std::optional<denoise::ImageValues>& values,
                 const base::Logger& log) {
  const diffusion::SchedulerConfig& scheduler = config.diffusion.scheduler;
  denoise::warn_of_values(values, scheduler, dataset, log);
  const std::string sigma_data = values && !config.diffusion.mean_model
                                     ? denoise::sigma_data_warning(*values, scheduler, dataset.path().string())
                                     : std::string();
  if (!sigma_data.empty()) log.warn("{}", sigma_data);
  denoise::warn_of_boundaries(config.model, dataset, log);
  denoise::warn_of_missing_times(dataset, log);
}

denoise::ImageRecord Task::image_record() const {
  return denoise::record_images(dataset, config.data.positions, fitted.patch);
}

denoise::Augmentation Task::augmentation() const {
  return {.seed = static_cast<uint64_t>(config.run.seed),
          .horizontal_flip = config.data.horizontal_flip,
          .vertical_flip = config.data.vertical_flip,
          .quarter_turns = config.data.quarter_turns,
          .condition_dropout = config.diffusion.condition_dropout};
}

denoise::Windows Task::windows() const {
  const std::size_t axes = fitted.patch.whole.sides().size();
  const int64_t tile = place.mesh.coordinate(place.rank, layout::Axis::spatial);
  return {fitted.patch,
          static_cast<uint64_t>(config.run.seed),
          base::Stream::patch,
          place.device,
          config.data.periodic_shift ? denoise::periodic_axes(fitted.unet, axes) : std::vector<bool>{},
          {.pixels = fitted.tiling.cut_pixels(tile), .augmentation = augmentation()}};
}

std::optional<data::ImageWindows> Task::windows_to_read() const {
  return denoise::windows_to_read(windows(), fitted.patch, dataset.has_checksums());
}

data::BatchLoaderOptions Task::loading(int64_t first_step, int64_t end_step) const {
  return {.layout = place.layout,
          .rank = place.data_parallel_rank(),
          .first_step = first_step,
          .end_step = end_step,
          .prefetch = config.data.prefetch,
          .windows = windows_to_read(),
          .together_bytes = data::read_together_bytes(fitted.tiling.count())};
}

DataPeriod Task::period() const {
  return {.images = dataset.size(),
          .pass = order.count(),
          .name = dataset.name(),
          .content_hash = dataset.content_hash(),
          .shares = order.shares(),
          .set_orders = order.set_orders()};
}

Task Task::make(Configuration& configuration, const run::Runtime& runtime) {
  const Config& config = configuration.values();
  comm::Communicator& world = runtime.session.world();
  run::expect_same_program(configuration.schema(), world);
  const run::Placement place = run::Placement::make(config, runtime.session, runtime.log);
  auto sources = data::train_sources(config.data);
  if (config.data.stage) {
    const data::HostRank host{.rank = runtime.session.local_rank(), .size = runtime.session.local_size()};
    sources = data::stage_sets(world, host, sources, *config.data.stage, runtime.files, runtime.log);
  }
  const int threads =
      device::threads_per_rank(static_cast<int>(config.run.threads_per_rank), runtime.session.local_size());
  auto dataset = data::Dataset::open(world, sources, data::dataset_options(config.data, threads));
  if (config.data.hold) data::hold_in_memory(world, dataset);
  FittedModel fitted;
  comm::agree(world, [&] { fitted = fitted_model(config, dataset); });
  auto mean = settle_set(configuration, dataset, fitted, place.device, runtime);
  data::ImageOrder order(dataset.parts(), static_cast<uint64_t>(config.run.seed), data::order_options(config.data));
  order.relate_sets(data::SetOrders::own);
  int64_t total_steps = 0;
  comm::agree(world, [&] { total_steps = steps_on(dataset, config); });
  Task task{.config = config,
            .sources = std::move(sources),
            .dataset = std::move(dataset),
            .order = std::move(order),
            .place = place,
            .total_steps = total_steps,
            .fitted = std::move(fitted),
            .mean = std::move(mean)};
  task.history = {task.period()};
  return task;
}

}  // namespace ddpm::train
