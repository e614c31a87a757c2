#include "bench/step_bench.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "comm/collectives.h"
#include "data/loader.h"
#include "device/choose_device.h"
#include "device/peak_memory.h"
#include "plan/model_sizes.h"
#include "run/supervision.h"
#include "train/denoising_step.h"
#include "train/task.h"
#include "train/unet_state.h"

namespace ddpm::bench {
namespace {

double image_flops(const train::Task& task) {
  const train::Config& config = task.config;
  const auto sizes = plan::model_sizes(task.fitted.unet, task.fitted.patch.window, task.place.layout.micro_size,
                                       config.precision.mixed_precision != optim::MixedPrecision::no,
                                       config.parallel.activation_checkpointing);
  return sizes.forward_flops + sizes.backward_flops;
}

/// Trained parameters of the whole model, of which each rank has those of its stage. Collective.
int64_t all_parameters(const parallel::ParameterArena& arena, comm::Communicator& world) {
  const int64_t of_all_ranks = comm::all_reduce(world, arena.parameter_count(), comm::ReduceOp::sum);
  return of_all_ranks / (world.size() / arena.sharding().stages);
}

/// float32: the norm reads gradients; the update reads them, and reads and writes weights, two moments, averages. In
/// mixed precision the weights are then read again and written in 16 bits. `parameters`: of the whole model.
double update_bytes(const train::Task& task, int64_t parameters) {
  const double converted = task.place.compute_dtype == at::kFloat ? 0.0 : 1.5;
  const auto passes = static_cast<double>(1 + 1 + 2 * (3 + task.config.ema.count())) + converted;
  const int64_t copies = task.place.mesh.degree(layout::kReplicas | layout::Axis::island);
  return passes * static_cast<double>(copies) * static_cast<double>(parameters) * sizeof(float);
}

/// The bytes that a rank updates, in the mean over ranks: gradients, weights, two moments and averages, in float32.
/// Collective.
int64_t state_bytes(const train::Task& task, const parallel::ParameterArena& arena, comm::Communicator& world) {
  const auto copies = static_cast<int64_t>(4 + task.config.ema.count());
  int64_t elements = 0;
  for (const layout::Range piece : arena.pieces()) elements += piece.size();
  elements = comm::all_reduce(world, elements, comm::ReduceOp::sum) / world.size();
  return copies * static_cast<int64_t>(sizeof(float)) * elements;
}

engine::StepSeconds mean_over(comm::Communicator& world, engine::StepSeconds parts, int64_t steps) {
  comm::all_reduce(world, parts, comm::ReduceOp::sum);
  for (double& seconds : parts) seconds /= static_cast<double>(steps * world.size());
  return parts;
}

double mean_over(comm::Communicator& world, double seconds, int64_t steps) {
  return comm::all_reduce(world, seconds, comm::ReduceOp::sum) / static_cast<double>(steps * world.size());
}

template <typename Use>
void run_steps(train::DenoisingStep& step, data::BatchLoader& loader, int64_t count, const Use& use) {
  for (int64_t i = 1; i <= count; ++i) {
    step.begin(loader);
    while (const auto one = step.finished(/*settle=*/i == count)) use(*one);
  }
}

/// Measures everything but the limits. The model and its memory are gone afterwards.
StepBench time_training(train::Task& task, const run::Runtime& runtime, StepBenchOptions options) {
  comm::Communicator& world = runtime.session.world();
  const c10::Device device = task.place.device;
  run::FaultConfig fault = task.config.fault;
  fault.stop_signals.clear();  // there is nothing to save
  fault.max_minutes = 0.0;
  run::Supervision supervision(fault, runtime);
  train::UNetState model(task.fitted.unet, task.config.ema.count(), task.place.compute_dtype, device,
                         task.place.sharding);
  device::DataParallelDevice data_parallel(device, runtime.session, task.config.parallel.share_gpus);
  train::DenoisingStep step(task, model, world, data_parallel.communicator(), supervision,
                            engine::StepGraph(data_parallel.make_graph(), world, runtime.log));
  model.initialize(static_cast<uint64_t>(task.config.run.seed));
  step.state_changed();

  const bool parts_apart = !device.is_cpu();  // on a GPU they cannot be timed without waiting for it
  if (parts_apart) options.warm_up = std::max(options.warm_up, engine::StepGraph::kFirstRuns);
  const int64_t last = std::numeric_limits<int32_t>::max();  // it reads ahead as in a long training
  data::BatchLoader loader(task.dataset, task.order, task.loading(0, last));
  StepBench result;
  result.ranks = world.size();
  result.threads = at::get_num_threads();
  result.mixed_precision = task.config.precision.mixed_precision;
  result.global_size = task.place.layout.global_size;
  result.micro_size = task.place.layout.micro_size;
  result.warm_up = options.warm_up;
  result.steps = options.steps;
  result.parameters = all_parameters(model.arena, world);
  result.state_bytes = state_bytes(task, model.arena, world);
  result.image_flops = image_flops(task);
  result.update_bytes = update_bytes(task, result.parameters);
  run_steps(step, loader, options.warm_up, [](const train::StepResult& /*result*/) {});
  step.parts().take();
  std::vector<double> seconds;
  std::vector<double> rates;
  double waited = 0.0;
  const auto add_wait = [&waited](const train::StepResult& one) { waited += one.own_times.comm_wait; };
  run_steps(step, loader, options.steps, [&](const train::StepResult& one) {
    seconds.push_back(one.times.seconds);
    rates.push_back(static_cast<double>(task.place.layout.global_size) / one.times.seconds);
    result.data_wait += one.times.data_wait / static_cast<double>(options.steps);
    result.comm_wait += one.times.comm_wait / static_cast<double>(options.steps);
    add_wait(one);
  });
  result.peak_memory_bytes = comm::all_reduce(world, device::peak_resident_bytes(), comm::ReduceOp::max);
  result.peak_device_bytes = comm::all_reduce(world, device::peak_of_device(device).reserved, comm::ReduceOp::max);
  if (parts_apart) {
    step.time_parts();
    step.parts().take();
    waited = 0.0;
    run_steps(step, loader, options.steps, add_wait);
  }
  result.seconds_per_step = spread_of(seconds);
  result.images_per_second = spread_of(rates);
  result.parts = mean_over(world, step.parts().take(), options.steps);
  result.mean_comm_wait = mean_over(world, waited, options.steps);
  return result;
}

}  // namespace

double StepBench::update_fraction() const {
  const double seconds = parts[static_cast<std::size_t>(engine::StepPart::optimizer)] +  //
                         parts[static_cast<std::size_t>(engine::StepPart::ema)];
  return seconds > 0.0 ? update_bytes / seconds / limits.memory_bytes_per_second : 0.0;
}

StepBench bench_step(train::Configuration& configuration, const run::Runtime& runtime,
                     const StepBenchOptions& options) {
  comm::Communicator& world = runtime.session.world();
  train::Task task = train::Task::make(configuration, runtime);
  const comm::Phase before = runtime.watchdog != nullptr ? runtime.watchdog->phase() : comm::Phase::nothing();
  StepBench result = time_training(task, runtime, options);
  if (runtime.watchdog != nullptr) runtime.watchdog->enter(before);
  // The limits are measured when the model's memory is free again.
  const c10::Device device = task.place.device;
  if (!device.is_cpu()) c10::getDeviceAllocator(device.type())->emptyCache();
  result.limits = measure_limits(device, task.place.compute_dtype, world, result.state_bytes);
  task.dataset.close(world);
  return result;
}

}  // namespace ddpm::bench
