#include "train/task.h"

#include "comm/collectives.h"
#include "denoise/image_values.h"
#include "denoise/model_fit.h"

namespace ddpm::train {
Task Task::make(Configuration& configuration, const run::Runtime& runtime) {
  const Config& config = configuration.values();
  comm::Communicator& world = runtime.session.world();
  run::expect_same_program(configuration.schema(), world);
  const run::Placement place = run::Placement::make(config, runtime.session, runtime.log);
  auto dataset = data::Dataset::open(world, data::train_path(config.data), data::dataset_options(config.data));
  nn::UNet2DConfig model;
  comm::agree(world, [&] { model = denoise::fit_model(config.model, dataset); });
  const data::ImageOrder order(dataset.size(), static_cast<uint64_t>(config.run.seed),
                               data::order_options(config.data));
  comm::expect_same(world, "dataset", dataset.content_hash());
  configuration.set_clip_sample(
      denoise::settled_clip_sample(config.diffusion.scheduler, dataset, config.run.directory, runtime));
  const int64_t total_steps = config.train.total_steps(dataset.size(), config.batch.global_size);
  return {.config = config,
          .dataset = std::move(dataset),
          .order = order,
          .place = place,
          .total_steps = total_steps,
          .model = std::move(model)};
}

}  // namespace ddpm::train
