#include "train/mean_source.h"

#include "base/version.h"
#include "comm/collectives.h"
#include "denoise/image_record.h"
#include "denoise/mean_model.h"
#include "denoise/model_fit.h"
#include "denoise/record_images.h"
#include "train/config.h"

namespace ddpm::train {

std::shared_ptr<const denoise::LoadedModel> open_mean_model(const Config& config, const data::Dataset& dataset,
                                                            const FittedModel& model, const run::Runtime& runtime,
                                                            at::Device device) {
  if (!config.diffusion.mean_model) return nullptr;
  comm::Communicator& world = runtime.session.world();
  const base::Path copy = base::Path(config.run.directory) / interop::kMeanFolder;
  const bool kept = comm::ask_root(world, [&] { return runtime.files.exists(copy); });
  const base::Path path = kept ? copy : base::Path(*config.diffusion.mean_model);
  auto regression =
      std::make_shared<denoise::LoadedModel>(denoise::load_model(path, "", read_run_model, runtime, device));
  comm::agree(world, [&] {
    const auto record = denoise::record_images(dataset, config.data.positions, model.patch);
    denoise::expect_regression(*regression, record, model.unet, config.diffusion.class_dropout,
                               "diffusion.mean_model: " + path.string());
    expect_tiling(config, model.unet, &regression->unet->config(), model.tiling);
  });
  runtime.log.info("learning what {} leaves of the images ({})", path.string(), regression->description);
  return regression;
}

void with_parts(const denoise::LoadedModel& regression, const std::function<void(const interop::WrittenModel&)>& use) {
  nn::UNet2DConfig unet = regression.unet->config();
  unet.sample_size = denoise::model_size(regression.image.format(1, regression.image.dtype));
  diffusion::SchedulerConfig scheduler;
  scheduler.formulation = diffusion::Formulation::regression;
  const std::vector<interop::NamedTensor> weights = interop::weights_of(*regression.unet);
  const base::Json normalization = regression.image.record_json();
  const interop::ModelCard card{.title = "Mean of the images",
                                .weights = regression.description,
                                .program_version = base::kVersion,
                                .class_names = regression.image.class_names};
  use({unet, scheduler, weights, normalization, card});
}

void keep_mean_model(const denoise::LoadedModel& regression, const base::Path& run, const run::Runtime& runtime) {
  const base::Path copy = run / interop::kMeanFolder;
  comm::do_on_root(runtime.session.world(), [&] {
    if (runtime.files.exists(copy)) return;
    with_parts(regression,
               [&](const interop::WrittenModel& parts) { interop::write_diffusers_model(runtime.files, copy, parts); });
  });
}

}  // namespace ddpm::train
