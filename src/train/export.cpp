#include "train/export.h"

#include <ATen/core/grad_mode.h>

#include "comm/axis_communicator.h"
#include "comm/collectives.h"
#include "denoise/image_record.h"
#include "interop/peft_adapter.h"
#include "parallel/weight_gatherer.h"
#include "train/mean_source.h"

namespace ddpm::train {
namespace {

constexpr const char* kAdapterFolder = "adapter";

/// What is trained: all but constants, or the adapters alone.
std::vector<interop::NamedTensor> trained_weights(const UNetState& model, const at::Tensor& flat) {
  std::vector<interop::NamedTensor> weights;
  for (const auto& entry : model.arena.entries()) {
    weights.emplace_back(entry.name,
                         parallel::ParameterArena::view(flat.narrow(0, entry.range.begin, entry.range.size()), entry));
  }
  return weights;
}

}  // namespace

void export_model(const UNetState& model, const denoise::AdapterBase* adapter_base, const Task& task,
                  const Configuration& configuration, const CardFacts& facts, const run::Runtime& runtime,
                  const base::Path& directory) {
  comm::Communicator& world = runtime.session.world();
  const auto average = model.ema.empty() ? std::nullopt : std::optional<std::size_t>(0);
  const auto shard = comm::axis_communicator(world, task.place.mesh, layout::Axis::shard);
  const at::Tensor whole = parallel::gather_whole(model.arena, average ? model.ema[*average] : model.arena.master(),
                                                  *shard, world.rank() == 0);
  const interop::ModelCard card = card_of(configuration, directory.parent_path(), facts, {.ema = average});
  comm::do_on_root(world, [&] {
    const at::NoGradGuard no_grad;
    const Config& config = task.config;
    auto weights = trained_weights(model, whole);
    if (adapter_base == nullptr) {
      for (const engine::FixedTensor& tensor : model.fixed) weights.emplace_back(tensor.name, tensor.value);
    } else {
      if (nn::fits_diffusers(task.fitted.unet)) {
        interop::write_peft_adapter(runtime.files, directory.parent_path() / kAdapterFolder,
                                    {.unet = model.unet, .weights = weights, .base = adapter_base->path});
      }
      weights = denoise::merged_weights(*adapter_base, model.unet, {weights.begin(), weights.end()});
    }
    const denoise::ImageRecord image = task.image_record();
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
