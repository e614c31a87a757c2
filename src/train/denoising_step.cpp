#include "train/denoising_step.h"

#include <array>
#include <deque>
#include <utility>
#include <vector>

#include <ATen/ops/clone.h>
#include <fmt/format.h>

#include "comm/axis_communicator.h"
#include "denoise/batch.h"
#include "denoise/mean_model.h"
#include "device/ranges.h"
#include "layout/pipeline.h"
#include "parallel/tensor_buffer.h"
#include "train/finish_step.h"
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
      feeder_(fields_read(task), task.place.device, task.place.mesh.degree(layout::Axis::pipeline)),
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
  if (auto parts = group_along(layout::Axis::tensor)) {
    channels_ = std::make_unique<comm::TimedCommunicator>(std::move(parts));
  }
  model_tiles_ = ModelTiles(task_.fitted.tiling, model.unet, task_.mean.get(), tiles_.get(), channels_.get(),
                            parallel::queue_mode(config_.parallel.overlap, task_.place.device));
  stages_ = group_along(layout::Axis::pipeline);
  if (stages_) join_pipeline();
  step_.on_phase([this](engine::RunPhase phase) { supervision_.enter(phase, step_.next_step()); });
  // A recording that fails would leave trades of borders behind, which never travel.
  if (step_.updates_on_host() || tiles_) graph_.give_up();
}

void DenoisingStep::join_pipeline() {
  const layout::Tiling& tiling = task_.fitted.tiling;
  if (tiles_) {
    planned_tile_ = std::make_unique<parallel::PlannedTile>(tiling, model_.unet.image_shape(), tiles_->rank());
  }
  pipeline_ = std::make_unique<parallel::PipelineStage>(
      task_.fitted.unet, task_.place.compute_dtype, task_.place.device,
      planned_tile_ ? static_cast<const nn::Partition&>(*planned_tile_) : nn::whole_image(), model_.stages, *stages_,
      step_.weights());
  graph_.give_up();
}

void DenoisingStep::with_model_weights(const std::function<void(nn::UnitExecutor&)>& use) {
  step_.with_model_weights([&](nn::UnitExecutor& weights) {
    use(pipeline_ ? *pipeline_ : weights);
    if (pipeline_) pipeline_->finish();
  });
  take_exposed_seconds();  // not the next step's
}

double DenoisingStep::take_exposed_seconds() {
  double seconds = step_.take_exposed_seconds();
  if (pipeline_) seconds += pipeline_->take_exposed_seconds();
  if (channels_) seconds += channels_->take_seconds();
  return seconds + model_tiles_.take_exposed_seconds();
}

void DenoisingStep::time_parts() {
  graph_.give_up();
  step_.parts().synchronize(task_.place.device);
}

void DenoisingStep::trace(base::Trace* trace) {
  trace_ = trace;
  step_.trace(trace);
  model_tiles_.trace(trace);
  if (pipeline_) pipeline_->trace(trace);
  if (trace == nullptr) return step_.parts().synchronize(std::nullopt);
  time_parts();
}

bool DenoisingStep::begin(data::BatchLoader& loader) {
  const device::ScopedRange range(fmt::format("step {}", step_.next_step()));
  clock_.begin();
  const double waited = loader.seconds_waited();
  step_.begin();
  if (graph_.wanted()) {
    launch_recorded(loader);
  } else if (pipeline_) {
    launch_stage(loader);
  } else if (!launch(loader)) {
    return false;
  }
  step_.submit();
  clock_.launched(loader.seconds_waited() - waited, take_exposed_seconds());
  return true;
}

bool DenoisingStep::launch(data::BatchLoader& loader) {
  held_.clear();  // those of a recording that was given up
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

/// The passes of this rank's stage. A request to stop waits for the end of the step: stages are not at the same
/// micro-batch.
void DenoisingStep::launch_stage(data::BatchLoader& loader) {
  std::optional<TracedUnits> traced;  // inside the pipeline: units of this stage alone, without waiting for the others
  if (base::records(trace_)) pipeline_->run_in(&traced.emplace(step_.weights(), *trace_, task_.place.device));
  const denoise::DenoisingLoss loss = denoising(*pipeline_);
  std::deque<denoise::DenoisingLoss::Forward> waiting;
  std::vector<at::Tensor> rows;
  const auto forward = [&] {
    const denoise::StoredBatch stored = next_batch(loader);
    supervision_.enter(engine::RunPhase::model, step_.next_step());
    waiting.push_back(loss.forward(model_batch(stored), step_.parts()));
    feeder_.read_ahead(loader);
  };
  const auto backward = [&](const at::Tensor& loss_factor) {
    step_.parts().enter(engine::StepPart::backward);
    pipeline_->backward(waiting.front().objective(loss_factor));
    step_.parts().enter(engine::StepPart::other);
    if (traced) traced->end_backward(step_.parts().entered());
    rows.push_back(loss.row(waiting.front()));
    waiting.pop_front();
  };
  const int64_t micro_batches = task_.place.layout.accumulation_steps();
  pipeline_->expect(micro_batches);
  // A stage that may not run ahead takes one micro-batch after the other, as the last one does.
  const int64_t stage = pipeline_->may_run_ahead() ? stages_->rank() : stages_->size() - 1;
  step_.accumulate(layout::one_forward_one_backward(stage, stages_->size(), micro_batches), forward, backward);
  pipeline_->finish();
  if (traced) pipeline_->run_in(&step_.weights());
  step_.add_sums(supervision_.votes());
  step_.update(denoise::tree_sum(rows));
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
  model_.before_change();  // since a recording cannot wait for what came before it
  graph_.run(step_.next_step(), work, [this] { step_.discard(); });
}

denoise::StoredBatch DenoisingStep::next_batch(data::BatchLoader& loader) {
  supervision_.enter(engine::RunPhase::images, step_.next_step());
  step_.parts().enter(engine::StepPart::data);
  return feeder_.next(loader);
}

/// Forward and backward of a micro-batch; returns its loss_row().
at::Tensor DenoisingStep::learn(const denoise::StoredBatch& stored, const at::Tensor& loss_factor) {
  std::optional<TracedUnits> traced;
  if (base::records(trace_)) traced.emplace(step_.weights(), *trace_, task_.place.device);
  nn::UnitExecutor& units = traced ? static_cast<nn::UnitExecutor&>(*traced) : step_.weights();
  at::Tensor row = denoising(units).forward_backward(model_batch(stored), loss_factor, step_.parts());
  if (traced) traced->end_backward(step_.parts().entered());
  return row;
}

denoise::DenoisingLoss DenoisingStep::denoising(nn::UnitExecutor& units) const {
  return {model_.unet,
          process_,
          static_cast<uint64_t>(config_.run.seed),
          units,
          nn::input_dtype(task_.fitted.unet, task_.place.compute_dtype),
          *tiles().model};
}

denoise::ModelBatch DenoisingStep::model_batch(const denoise::StoredBatch& stored) {
  step_.parts().enter(engine::StepPart::data);
  denoise::ModelBatch batch = inputs_.batch(stored, augmentation_);
  if (task_.mean) {
    step_.parts().enter(engine::StepPart::forward);
    batch = denoise::without_mean(*task_.mean, std::move(batch), *tiles().mean);
  }
  return batch;
}

std::optional<StepResult> DenoisingStep::finished(bool settle) {
  if (step_.under_way() <= (settle ? 0 : step_.may_stay_under_way())) return std::nullopt;
  std::array<double, denoise::LossSums::kCount> sums{};
  StepResult result = finish_step(step_, model_, supervision_, clock_, world_, sums);
  denoise::LossSums losses;
  losses.unpack(sums);
  result.loss = losses.loss / static_cast<double>(task_.place.layout.global_size);
  for (std::size_t q = 0; q < 4; ++q) {
    result.loss_quartiles.at(q) = losses.quartile_loss.at(q) / losses.quartile_count.at(q);
  }
  return result;
}

}  // namespace ddpm::train
