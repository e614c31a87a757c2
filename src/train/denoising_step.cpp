#include "train/denoising_step.h"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ops/clone.h>

#include "comm/axis_communicator.h"
#include "denoise/batch.h"
#include "denoise/mean_model.h"
#include "train/traced_units.h"

namespace ddpm::train {
namespace {

/// A recorded step also decides on the device whether its update applies.
engine::StepRules rules_for(const Task& task, const engine::StepGraph& graph) {
  engine::StepRules rules = run::rules_of(task.config, task.place, task.total_steps);
  rules.device_update = graph.wanted();
  return rules;
}

/// Copies a batch to where the graph reads it. Its fields on the host stay those of the first batch.
void hold(std::vector<denoise::StoredBatch>& held, std::size_t micro, const denoise::StoredBatch& batch) {
  if (micro == held.size()) {
    denoise::StoredBatch copy = batch;
    copy.step_on_device = batch.step_on_device.clone();
    for (at::Tensor& values : copy.values) values = values.clone();
    held.push_back(copy);
    return;
  }
  const denoise::StoredBatch& copy = held.at(micro);
  copy.step_on_device.copy_(batch.step_on_device);
  for (std::size_t f = 0; f < copy.values.size(); ++f) copy.values[f].copy_(batch.values[f]);
}

/// The fields as the loader reads them.
std::vector<data::Field> fields_read(const Task& task) {
  const auto windows = task.windows_to_read();
  return windows ? windows->read_of(task.dataset.fields()) : task.dataset.fields();
}

}  // namespace

DenoisingStep::DenoisingStep(const Task& task, UNetState& model, comm::Communicator& world,
                             comm::Communicator& data_parallel, run::Supervision& supervision, engine::StepGraph graph)
    : task_(task),
      config_(task.config),
      model_(model),
      world_(world),
      supervision_(supervision),
      process_(config_.diffusion, task.place.device),
      feeder_(fields_read(task), task.place.device),
      inputs_(task.dataset, config_.data.positions, task.place.device, task.windows(),
              denoise::vectors_of(config_.data.vectors)),
      augmentation_(task.augmentation()),
      checkpointer_(config_.parallel.activation_checkpointing),
      step_(rules_for(task, graph), model, world, data_parallel,
            {.losses = denoise::LossSums::kCount, .votes = run::Supervision::kVotes}, &checkpointer_),
      graph_(std::move(graph)) {
  const auto group_along = [&](layout::Axis axis) {
    const layout::Mesh& mesh = task_.place.mesh;
    return mesh.degree(axis) > 1 ? comm::axis_communicator(data_parallel, mesh, axis) : nullptr;
  };
  tiles_ = group_along(layout::Axis::spatial);
  channels_ = group_along(layout::Axis::tensor);
  const auto tile_of = [&](const nn::UNet2D& unet, comm::Communicator* channels) {
    return std::make_unique<parallel::TilePartition>(task_.fitted.tiling, unet.image_shape(), tiles_.get(), channels);
  };
  if (tiles_ || channels_) tile_ = tile_of(model.unet, channels_.get());
  if (tiles_ && task_.mean) mean_tile_ = tile_of(*task_.mean->unet, nullptr);
  step_.on_phase([this](engine::RunPhase phase) { supervision_.enter(phase, step_.next_step()); });
  if (step_.updates_on_host()) graph_.give_up();
}

void DenoisingStep::time_parts() {
  graph_.give_up();
  step_.parts().synchronize(task_.place.device);
}

void DenoisingStep::trace(base::Trace* trace) {
  trace_ = trace;
  step_.trace(trace);
  if (trace == nullptr) return step_.parts().synchronize(std::nullopt);
  time_parts();
}

bool DenoisingStep::begin(data::BatchLoader& loader) {
  clock_.begin();
  const double waited = loader.seconds_waited();
  step_.begin();
  if (graph_.wanted()) {
    launch_recorded(loader);
  } else if (!launch(loader)) {
    return false;
  }
  step_.submit();
  clock_.launched(loader.seconds_waited() - waited, step_.take_exposed_seconds());
  return true;
}

bool DenoisingStep::launch(data::BatchLoader& loader) {
  std::vector<at::Tensor> rows;
  const auto forward_backward = [&](int64_t /*micro*/, const at::Tensor& loss_factor) {
    const denoise::StoredBatch stored = next_batch(loader);
    supervision_.enter(engine::RunPhase::model, step_.next_step());
    rows.push_back(learn(stored, loss_factor));
    feeder_.read_ahead(loader);
  };
  if (!step_.accumulate(forward_backward, [this] { return supervision_.interrupted(); })) return false;
  step_.add_sums(supervision_.votes());
  step_.update(denoise::tree_sum(rows));
  return true;
}

/// Everything that depends on the host comes first; the rest is equal at every step.
void DenoisingStep::launch_recorded(data::BatchLoader& loader) {
  const auto micro_batches = static_cast<std::size_t>(task_.place.layout.accumulation_steps());
  for (std::size_t micro = 0; micro < micro_batches; ++micro) {
    hold(held_, micro, next_batch(loader));
    feeder_.read_ahead(loader);
  }
  step_.add_sums(supervision_.votes());
  supervision_.enter(engine::RunPhase::model, step_.next_step());
  const auto work = [this] {
    std::vector<at::Tensor> rows;
    step_.accumulate(
        [&](int64_t micro, const at::Tensor& loss_factor) {
          rows.push_back(learn(held_.at(static_cast<std::size_t>(micro)), loss_factor));
        },
        [] { return false; });
    step_.update(denoise::tree_sum(rows));
  };
  graph_.run(step_.next_step(), work, [this] { step_.discard(); });
}

denoise::StoredBatch DenoisingStep::next_batch(data::BatchLoader& loader) {
  supervision_.enter(engine::RunPhase::images, step_.next_step());
  step_.parts().enter(engine::StepPart::data);
  return feeder_.next(loader);
}

/// Forward and backward of a micro-batch; returns its loss_row().
at::Tensor DenoisingStep::learn(const denoise::StoredBatch& stored, const at::Tensor& loss_factor) {
  const auto seed = static_cast<uint64_t>(config_.run.seed);
  std::optional<TracedUnits> traced;
  if (base::records(trace_)) traced.emplace(step_.weights(), *trace_, task_.place.device);
  nn::UnitExecutor& units = traced ? static_cast<nn::UnitExecutor&>(*traced) : step_.weights();
  const denoise::DenoisingLoss denoising{model_.unet,
                                         process_,
                                         seed,
                                         units,  // centering, 2x - 1, is done in float32
                                         task_.fitted.unet.center_input_sample ? at::kFloat : task_.place.compute_dtype,
                                         partition()};
  step_.parts().enter(engine::StepPart::data);
  denoise::ModelBatch batch = inputs_.batch(stored, augmentation_);
  if (task_.mean) {
    step_.parts().enter(engine::StepPart::forward);
    batch = denoise::without_mean(*task_.mean, std::move(batch), mean_partition());
  }
  at::Tensor row = denoising.forward_backward(batch, loss_factor, step_.parts());
  if (traced) traced->end_backward(step_.parts().entered());
  return row;
}

std::optional<StepResult> DenoisingStep::finished(bool settle) {
  if (step_.under_way() <= (settle ? 0 : step_.may_stay_under_way())) return std::nullopt;
  StepResult result;
  result.loss_scale = step_.loss_scale();
  std::array<double, denoise::LossSums::kCount + run::Supervision::kVotes> sums{};
  const engine::UpdateVerdict update = step_.finish(sums);
  supervision_.decide(std::span(sums).last<run::Supervision::kVotes>(), model_.progress.step);
  denoise::LossSums losses;
  losses.unpack(std::span(sums).first<denoise::LossSums::kCount>());
  result.loss = losses.loss / static_cast<double>(task_.place.layout.global_size);
  for (std::size_t q = 0; q < 4; ++q) {
    result.loss_quartiles.at(q) = losses.quartile_loss.at(q) / losses.quartile_count.at(q);
  }
  result.gradient_norm = update.gradient_norm;
  result.learning_rate = update.learning_rate;
  result.times = clock_.end(world_);
  result.own_times = clock_.own();
  return result;
}

}  // namespace ddpm::train
