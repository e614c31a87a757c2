#include "train/bench/step_bench.h"

#include <vector>

#include "comm/collectives.h"
#include "data/loader.h"
#include "train/device.h"
#include "train/model_sizes.h"
#include "train/model_state.h"
#include "train/optimizer_step.h"
#include "train/setup.h"
#include "train/step_metrics.h"
#include "train/supervision.h"

namespace ddpm::train::bench {
namespace {

double image_flops(const Setup& setup) {
  const Config& config = setup.config;
  const auto sizes = model_sizes(setup.model, setup.dataset.image(), setup.place.layout.micro_size,
                                 config.precision.mixed_precision != "no", config.parallel.activation_checkpointing);
  return 3.0 * sizes.forward_flops;  // backward: with respect to inputs, and to weights
}

/// float32: the norm reads gradients; the update reads them, and reads and writes weights, two moments, averages.
double update_bytes(const Setup& setup, int64_t parameters) {
  const auto passes = static_cast<double>(1 + 1 + 2 * (3 + setup.config.ema.count()));
  const auto copies = static_cast<double>(setup.place.layout.data_parallel_size / setup.place.sharding.parts);
  return passes * copies * static_cast<double>(parameters) * sizeof(float);
}

StepSeconds mean_over(comm::Communicator& world, StepSeconds parts, int64_t steps) {
  comm::all_reduce(world, parts, comm::ReduceOp::sum);
  for (double& seconds : parts) seconds /= static_cast<double>(steps * world.size());
  return parts;
}

template <typename Use>
void run_steps(OptimizerStep& step, data::BatchLoader& loader, int64_t count, const Use& use) {
  for (int64_t i = 1; i <= count; ++i) {
    step.begin(loader);
    while (const auto outcome = step.conclude(/*settle=*/i == count)) use(*outcome);
  }
}

}  // namespace

double StepBench::update_fraction() const {
  const double seconds = parts[static_cast<std::size_t>(StepPart::optimizer)] +  //
                         parts[static_cast<std::size_t>(StepPart::ema)];
  return seconds > 0.0 ? update_bytes / seconds / limits.memory_bytes_per_second : 0.0;
}

StepBench bench_step(const Configuration& configuration, const Runtime& runtime, const StepBenchOptions& options) {
  comm::Communicator& world = runtime.session.world();
  FaultConfig fault = configuration.values().fault;
  fault.stop_signals.clear();  // there is nothing to save
  fault.max_minutes = 0.0;
  Supervision supervision(fault, runtime);
  Setup setup = Setup::make(configuration, runtime);
  ModelState model(setup.model, setup.config.ema.count(), setup.place.compute_dtype, setup.place.device,
                   setup.place.sharding);
  DataParallelDevice data_parallel(setup.place.device, runtime.session);
  OptimizerStep step(setup, model, world, data_parallel.communicator(), supervision,
                     StepGraph(data_parallel.make_graph(), world, runtime.log));
  model.initialize(static_cast<uint64_t>(setup.config.run.seed));
  step.state_changed();

  StepBench result;
  result.parameters = model.arena.parameter_count();
  result.image_flops = image_flops(setup);
  result.update_bytes = update_bytes(setup, result.parameters);
  result.limits = measure_limits(setup.place.device, setup.place.compute_dtype, world);

  const bool parts_apart = !setup.place.device.is_cpu();  // on a GPU they cannot be timed without waiting for it
  data::BatchLoader loader(setup.dataset, setup.order,
                           {.layout = setup.place.layout,
                            .rank = world.rank(),
                            .end_step = options.warm_up + (parts_apart ? 2 : 1) * options.steps,
                            .prefetch = setup.config.data.prefetch});
  run_steps(step, loader, options.warm_up, [](const StepOutcome& /*outcome*/) {});
  step.parts().take();
  std::vector<double> seconds;
  std::vector<double> rates;
  run_steps(step, loader, options.steps, [&](const StepOutcome& outcome) {
    seconds.push_back(outcome.times.seconds);
    rates.push_back(static_cast<double>(setup.place.layout.global_size) / outcome.times.seconds);
    result.data_wait += outcome.times.data_wait / static_cast<double>(options.steps);
    result.comm_wait += outcome.times.comm_wait / static_cast<double>(options.steps);
  });
  if (parts_apart) {
    step.time_parts();
    step.parts().take();
    run_steps(step, loader, options.steps, [](const StepOutcome& /*outcome*/) {});
  }
  result.seconds_per_step = spread_of(seconds);
  result.images_per_second = spread_of(rates);
  result.parts = mean_over(world, step.parts().take(), options.steps);
  result.peak_memory_bytes = comm::all_reduce(world, peak_resident_bytes(), comm::ReduceOp::max);
  setup.dataset.close(world);
  return result;
}

}  // namespace ddpm::train::bench
