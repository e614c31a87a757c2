#include "train/loaded_model.h"

#include <ATen/core/grad_mode.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "comm/collectives.h"
#include "diffusion/scheduler_json.h"
#include "interop/diffusers_reader.h"
#include "train/checkpointing.h"
#include "train/run_directory.h"
#include "train/unet_tensors.h"

namespace ddpm::train {
namespace {

void bind(nn::UNet2D& unet, at::Device device) {
  nn::allocate(unet.parameters(), at::TensorOptions().dtype(at::kFloat).device(device));
}

/// Images of that size must be ones that the model halves without a rest.
void expect_fitting(const ImageState& image, const nn::UNet2DConfig& model, const std::string& origin) {
  const int64_t multiple = nn::size_multiple(model);
  if (image.height % multiple == 0 && image.width % multiple == 0) return;
  throw base::OutputError("{}: images are {} × {}, but this model halves them {} times: a multiple of {} is wanted",
                          origin, image.height, image.width, model.block_out_channels.size() - 1, multiple);
}

LoadedModel load_diffusers(const base::Path& path, comm::Communicator& world, at::Device device) {
  LoadedModel model;
  comm::agree(world, [&] {
    const at::NoGradGuard no_grad;
    const nn::UNet2DConfig config = interop::read_model_config(path);
    if (config.sample_size.empty()) {
      throw base::OutputError("{}: config.json has no sample_size: the size of its images is not known", path.string());
    }
    model.unet = std::make_unique<nn::UNet2D>(config);
    bind(*model.unet, device);
    const auto weights = interop::read_unet_weights(path, expected_shapes(*model.unet));
    for (nn::Parameter* parameter : model.unet->parameters()) parameter->value.copy_(weights.at(parameter->name));
    model.image.height = config.sample_size.front();
    model.image.width = config.sample_size.back();
    expect_fitting(model.image, config, path.string());
    const auto scheduler = interop::read_scheduler(path);
    model.scheduler = scheduler ? scheduler->json : base::Json::object();
    if (scheduler) model.scheduler_origin = scheduler->path.string();
    model.image.class_names = interop::read_class_names(path);
    if (const auto map = interop::read_normalization(path)) {
      model.image.set_normalization(*map, (path / "normalization.json").string());
    }
  });
  model.description = "diffusers folder";
  return model;
}

/// The run folder that `path` (a run, or RUN/checkpoints/step-N) belongs to.
base::Path run_folder_of(const base::Path& path) {
  return base::is_there(path / checkpoint::kManifestName) ? path.parent_path().parent_path() : path;
}

LoadedModel load_run(const base::Path& path, const std::string& weights, const ReadRunModel& read_run,
                     const Runtime& runtime, at::Device device) {
  comm::Communicator& world = runtime.session.world();
  const base::Path run = run_folder_of(path);
  checkpoint::CheckpointStore store(runtime.files, world, run, runtime.log);
  const auto found = path == run ? store.find() : std::optional(store.open(path));
  LoadedModel model;
  WeightChoice choice;
  comm::agree(world, [&] {
    if (!found) throw base::OutputError("{} has no checkpoint yet", run.string());
    const RunModel trained = read_run(run / checkpoint::kConfigName);
    choice = WeightChoice::parse(weights.empty() ? (trained.averages > 0 ? "ema" : "raw") : weights);
    if (choice.ema && *choice.ema >= trained.averages) {
      throw base::ConfigError("--weights {}: {} keeps {}", weights, run.string(),
                              base::counted(trained.averages, "average"));
    }
    model.unet = std::make_unique<nn::UNet2D>(trained.unet);
    bind(*model.unet, device);
    model.scheduler = diffusion::write_scheduler(trained.scheduler);
    model.scheduler_origin = (run / checkpoint::kConfigName).string();
    const std::string origin = (found->directory / checkpoint::kManifestName).string() + ": state";
    model.image = read_image_state(found->manifest.state, origin);
    expect_fitting(model.image, trained.unet, origin);
  });
  restore_weights(model_tensors(*model.unet), choice, store, *found);
  model.description =
      fmt::format("step {}, {} weights", found->manifest.step, choice.ema ? fmt::format("ema:{}", *choice.ema) : "raw");
  return model;
}

}  // namespace

LoadedModel load_model(const base::Path& asked, const std::string& weights, const ReadRunModel& read_run,
                       const Runtime& runtime, at::Device device) {
  // The run around RUN/checkpoints/step-N is found by name, also from inside it.
  const base::Path path = base::plain_path(std::filesystem::absolute(asked));
  comm::Communicator& world = runtime.session.world();
  const std::string kind = comm::agree_on_root(world, [&]() -> std::string {
    if (base::is_there(path / checkpoint::kManifestName) || base::is_there(path / checkpoint::kConfigName))
      return "run";
    if (!interop::is_model_folder(path)) {
      throw base::OutputError(
          "--model {}: not a run, a checkpoint or a diffusers model folder (no {}, MANIFEST.json, "
          "config.json or unet/config.json)",
          asked.string(), checkpoint::kConfigName);
    }
    if (!weights.empty()) {
      throw base::ConfigError("--weights {}: {} is a diffusers folder, which has one set of weights", weights,
                              path.string());
    }
    return "diffusers";
  });
  return kind == "run" ? load_run(path, weights, read_run, runtime, device) : load_diffusers(path, world, device);
}

}  // namespace ddpm::train
