#include "train/export.h"

#include <ATen/core/grad_mode.h>

#include "comm/axis_communicator.h"
#include "comm/collectives.h"
#include "denoise/image_record.h"
#include "interop/diffusers_writer.h"
#include "parallel/weight_gatherer.h"
#include "train/card.h"
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

void export_model(const UNetState& model, const Task& task, const Configuration& configuration,
                  const ValidationRecord& validated, const run::Runtime& runtime, const base::Path& directory) {
  comm::Communicator& world = runtime.session.world();
  const bool averaged = !model.ema.empty();
  const auto shard = comm::axis_communicator(world, task.place.mesh, layout::Axis::shard);
  const at::Tensor whole = parallel::gather_whole(model.arena, averaged ? model.ema.front() : model.arena.master(),
                                                  *shard, world.rank() == 0);
  const std::string which = averaged ? fmt::format("EMA (max_decay {})", task.config.ema.max_decay.front()) : "raw";
  const interop::ModelCard card = make_card(task, configuration, model.progress, which, validated, runtime);
  comm::do_on_root(world, [&] {
    const at::NoGradGuard no_grad;
    const Config& config = task.config;
    const denoise::ImageRecord image = task.image_record();
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
