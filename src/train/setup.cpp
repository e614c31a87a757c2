#include "train/setup.h"

#include "comm/collectives.h"
#include "train/image_values.h"
#include "train/model_fit.h"

namespace ddpm::train {
Setup Setup::make(Configuration& configuration, const Runtime& runtime) {
  const Config& config = configuration.values();
  comm::Communicator& world = runtime.session.world();
  expect_same_program(configuration.schema(), world);
  const Placement place = Placement::make(config, runtime.session, runtime.log);
  auto dataset = data::Dataset::open(world, data::train_path(config.data), data::dataset_options(config.data));
  nn::UNet2DConfig model;
  comm::agree(world, [&] { model = fit_model(config.model, dataset); });
  const data::ImageOrder order(dataset.size(), static_cast<uint64_t>(config.run.seed),
                               data::order_options(config.data));
  comm::expect_same(world, "dataset", dataset.content_hash());
  configuration.set_clip_sample(
      settled_clip_sample(config.diffusion.scheduler, dataset, config.run.directory, runtime));
  const int64_t total_steps = config.train.total_steps(dataset.size(), config.batch.global_size);
  return {.config = config,
          .dataset = std::move(dataset),
          .order = order,
          .place = place,
          .total_steps = total_steps,
          .model = std::move(model)};
}

}  // namespace ddpm::train
