#include "train/export.h"

#include <ATen/core/grad_mode.h>

#include "base/version.h"
#include "comm/axis_communicator.h"
#include "comm/collectives.h"
#include "denoise/image_record.h"
#include "parallel/weight_gatherer.h"
#include "train/mean_source.h"

namespace ddpm::train {
namespace {

std::vector<interop::NamedTensor> named_weights(const UNetState& model, const at::Tensor& flat) {
  std::vector<interop::NamedTensor> weights;
  for (const auto& entry : model.arena.entries()) {
    weights.emplace_back(entry.name,
                         parallel::ParameterArena::view(flat.narrow(0, entry.range.begin, entry.range.size()), entry));
  }
  for (const engine::FixedTensor& tensor : model.fixed) weights.emplace_back(tensor.name, tensor.value);
  return weights;
}

}  // namespace

interop::ModelCard card_of_run(const Configuration& configuration, const std::vector<DataPeriod>& history,
                               const engine::Progress& progress, std::optional<std::size_t> average) {
  const Config& config = configuration.values();
  interop::ModelCard card;
  card.title = config.run.directory;
  if (!history.empty()) {
    card.dataset = history.back().name;
    card.dataset_images = history.back().images;
  }
  card.earlier_datasets = text_of_earlier(history);
  card.steps = progress.step;
  card.images_seen = progress.images_seen;
  card.weights = average ? fmt::format("EMA (max_decay {})", config.ema.max_decay.at(*average)) : "raw";
  card.config_toml = config::to_toml(configuration.schema(), false);
  card.program_version = base::kVersion;
  return card;
}

void export_model(const UNetState& model, const Task& task, const Configuration& configuration,
                  const run::Runtime& runtime, const base::Path& directory) {
  comm::Communicator& world = runtime.session.world();
  const auto average = model.ema.empty() ? std::nullopt : std::optional<std::size_t>(0);
  const auto shard = comm::axis_communicator(world, task.place.mesh, layout::Axis::shard);
  const at::Tensor whole = parallel::gather_whole(model.arena, average ? model.ema[*average] : model.arena.master(),
                                                  *shard, world.rank() == 0);
  comm::do_on_root(world, [&] {
    const at::NoGradGuard no_grad;
    const Config& config = task.config;
    interop::ModelCard card = card_of_run(configuration, task.history, model.progress, average);
    const denoise::ImageRecord image = task.image_record();
    card.class_names = image.class_names;
    const auto weights = named_weights(model, whole);
    base::Json normalization = image.record_json();
    denoise::write_dropouts(task.fitted.unet, image, config.diffusion, normalization);
    interop::WrittenModel written{task.fitted.unet, config.diffusion.scheduler, weights, normalization, card};
    const auto write = [&] { interop::write_diffusers_model(runtime.files, directory, written); };
    if (!task.mean) return write();
    with_parts(*task.mean, [&](const interop::WrittenModel& mean) {
      written.mean = &mean;
      write();
    });
  });
}

}  // namespace ddpm::train
