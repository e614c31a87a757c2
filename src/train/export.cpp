#include "train/export.h"

#include <algorithm>
#include <map>

#include <ATen/core/grad_mode.h>

#include "comm/axis_communicator.h"
#include "comm/collectives.h"
#include "denoise/image_record.h"
#include "interop/peft_adapter.h"
#include "parallel/weight_gatherer.h"
#include "train/card.h"
#include "train/mean_source.h"

namespace ddpm::train {
namespace {

constexpr const char* kAdapterFolder = "adapter";

std::vector<interop::NamedTensor> named_weights(const UNetState& model, const at::Tensor& flat) {
  std::vector<interop::NamedTensor> weights;
  for (const auto& entry : model.arena.entries()) {
    weights.emplace_back(entry.name,
                         parallel::ParameterArena::view(flat.narrow(0, entry.range.begin, entry.range.size()), entry));
  }
  for (const engine::FixedTensor& tensor : model.fixed) weights.emplace_back(tensor.name, tensor.value);
  return weights;
}

/// `weights`: those of the adapters, and others.
void write_adapters(const nn::UNet2D& unet, const denoise::AdapterBase& adapter_base,
                    const std::vector<interop::NamedTensor>& weights, base::FileSystem& files,
                    const base::Path& directory) {
  std::vector<interop::NamedTensor> adapters;
  for (const nn::Parameter* parameter : unet.parameters()) {
    if (parameter->role != base::ParameterRole::trained) continue;
    const auto named = std::ranges::find(weights, parameter->name, &interop::NamedTensor::first);
    adapters.push_back(*named);
  }
  interop::write_peft_adapter(files, directory, {.unet = unet, .weights = adapters, .base = adapter_base.path});
}

}  // namespace

void export_model(const UNetState& model, const denoise::AdapterBase* adapter_base, const Task& task,
                  const Configuration& configuration, const ValidationRecord& validated, const run::Runtime& runtime,
                  const base::Path& directory) {
  comm::Communicator& world = runtime.session.world();
  const auto average = model.ema.empty() ? std::nullopt : std::optional<std::size_t>(0);
  const auto shard = comm::axis_communicator(world, task.place.mesh, layout::Axis::shard);
  const at::Tensor whole = parallel::gather_whole(model.arena, average ? model.ema[*average] : model.arena.master(),
                                                  *shard, world.rank() == 0);
  const interop::ModelCard card = make_card(task, configuration, model.progress, {.ema = average}, validated, runtime);
  comm::do_on_root(world, [&] {
    const at::NoGradGuard no_grad;
    const Config& config = task.config;
    auto weights = named_weights(model, whole);
    if (adapter_base != nullptr) {
      if (nn::fits_diffusers(task.fitted.unet))
        write_adapters(model.unet, *adapter_base, weights, runtime.files, directory.parent_path() / kAdapterFolder);
      const std::map<std::string, at::Tensor> adapters(weights.begin(), weights.end());
      weights = denoise::merged_weights(*adapter_base, model.unet, adapters);
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
