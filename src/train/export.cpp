#include "train/export.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "comm/axis_communicator.h"
#include "comm/collectives.h"
#include "comm/message_tags.h"
#include "denoise/image_record.h"
#include "interop/peft_adapter.h"
#include "parallel/tensor_buffer.h"
#include "parallel/unit_flow.h"
#include "parallel/whole_tensors.h"
#include "train/mean_source.h"

namespace ddpm::train {
namespace {

constexpr const char* kAdapterFolder = "adapter";
/// What an export holds: what is trained (all but constants, or the adapters alone), and where there are no adapters
/// what is not.
struct Weights {
  std::vector<interop::NamedTensor> trained;
  std::vector<interop::NamedTensor> fixed;
};

/// Adds those of the other stages on rank 0 of `stages`. Collective over it.
void join_stages(const TrainedUNet& model, comm::Communicator& stages, Weights& weights) {
  if (stages.rank() > 0) {
    for (const std::vector<interop::NamedTensor>* some : {&weights.trained, &weights.fixed}) {
      for (const auto& [name, value] : *some) {
        const at::Tensor values = value.to(at::kCPU, at::kFloat).contiguous();
        stages.send(parallel::buffer_of(values), 0, comm::tags::kStageWeights).wait();
      }
    }
    return;
  }
  for (int stage = 1; stage < stages.size(); ++stage) {
    const layout::Range units = model.stages[static_cast<std::size_t>(stage)];
    for (const bool trained : {true, false}) {
      for (const nn::Parameter* parameter : model.unet.parameters()) {
        if (parameter->unit < units.begin || parameter->unit >= units.end) continue;
        if (parameter->role == base::ParameterRole::pretrained) continue;
        if ((parameter->role == base::ParameterRole::trained) != trained) continue;
        const at::Tensor values = at::empty(parameter->whole_shape(), at::TensorOptions(at::kFloat));
        stages.receive(parallel::buffer_of(values), stage, comm::tags::kStageWeights).wait();
        (trained ? weights.trained : weights.fixed).emplace_back(parameter->name, values);
      }
    }
  }
}

/// Gathers them on rank 0; of no use elsewhere. Collective.
Weights gather_weights(const UNetState& model, const parallel::StateBuffer& state, const layout::Mesh& mesh,
                       comm::Communicator& world) {
  const auto shard = comm::axis_communicator(world, mesh, layout::Axis::shard);
  const auto channels = comm::axis_communicator(world, mesh, layout::Axis::tensor);
  const auto stages = comm::axis_communicator(world, mesh, layout::Axis::pipeline);
  // The first ranks of each stage: the group of rank 0, and those that are like it.
  const bool asked = mesh.coordinate(world.rank(), layout::kDataParallel | layout::Axis::spatial) == 0;
  const at::Tensor whole = parallel::gather_whole(model.arena, state, *shard, asked);
  Weights weights;
  if (!asked) return weights;
  for (const auto& entry : model.arena.entries()) {
    const at::Tensor run = whole.narrow(0, entry.range.begin, entry.range.size());
    weights.trained.emplace_back(
        entry.name, parallel::join_parts(parallel::ParameterArena::view(run, entry), entry.split, *channels));
  }
  for (const engine::FixedTensor& tensor : model.fixed) {
    if (tensor.role == base::ParameterRole::pretrained) continue;
    weights.fixed.emplace_back(tensor.name, parallel::join_parts(tensor.value, tensor.split, *channels));
  }
  if (channels->rank() == 0) join_stages(model, *stages, weights);
  return weights;
}

}  // namespace

void export_model(const UNetState& model, const denoise::AdapterBase* adapter_base, const Task& task,
                  const Configuration& configuration, const CardFacts& facts, const run::Runtime& runtime,
                  const base::Path& directory) {
  comm::Communicator& world = runtime.session.world();
  const auto average = model.ema.empty() ? std::nullopt : std::optional<std::size_t>(0);
  const Weights gathered =
      gather_weights(model, average ? model.ema[*average] : model.arena.master(), task.place.mesh, world);
  const interop::ModelCard card = card_of(configuration, directory.parent_path(), facts, {.ema = average});
  comm::do_on_root(world, [&] {
    const at::NoGradGuard no_grad;
    const Config& config = task.config;
    const denoise::ImageRecord image = task.image_record();
    base::Json normalization = image.record_json();
    denoise::write_dropouts(task.fitted.unet, image, config.diffusion, normalization);
    denoise::write_mean(task.mean.get(), normalization);
    std::vector<interop::NamedTensor> weights = gathered.trained;
    if (adapter_base == nullptr) {
      weights.insert(weights.end(), gathered.fixed.begin(), gathered.fixed.end());
    } else {
      if (nn::fits_diffusers(task.fitted.unet)) {
        interop::write_peft_adapter(runtime.files, directory.parent_path() / kAdapterFolder,
                                    {.unet = model.unet,
                                     .weights = weights,
                                     .base = adapter_base->path,
                                     .formulation = config.diffusion.scheduler.formulation,
                                     .normalization = normalization,
                                     .card = card});
      }
      weights = denoise::merged_weights(*adapter_base, model.unet, {weights.begin(), weights.end()});
    }
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
