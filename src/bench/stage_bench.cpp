#include "bench/stage_bench.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "base/error.h"
#include "bench/precision_name.h"
#include "comm/collectives.h"
#include "layout/pipeline.h"
#include "nn/unet2d.h"
#include "parallel/unit_flow.h"
#include "parallel/unit_times.h"
#include "run/placement.h"

namespace ddpm::bench {

double StageBench::slowest(const std::vector<layout::Range>& stages) const {
  double most = 0.0;
  for (const layout::Range& stage : stages) {
    double seconds = 0.0;
    for (int64_t u = stage.begin; u < stage.end; ++u) seconds += units[static_cast<std::size_t>(u)].seconds;
    most = std::max(most, seconds);
  }
  return most;
}

std::vector<int64_t> StageBench::unit_counts(const std::vector<layout::Range>& stages) {
  std::vector<int64_t> counts(stages.size());
  std::ranges::transform(stages, counts.begin(), &layout::Range::size);
  return counts;
}

StageBench bench_stages(const train::Config& config, const nn::UNet2DConfig& model, const data::ImageFormat& image,
                        const run::Runtime& runtime, const StageBenchOptions& options) {
  comm::Communicator& world = runtime.session.world();
  const run::Placement place = run::Placement::make(config, runtime.session, runtime.log);
  const nn::UNet2D unet(model);
  comm::agree(world, [&] {
    if (options.stages <= std::ssize(unet.units())) return;
    throw base::ConfigError("--stages {}: the model has {} units that make stages; wanted: at most so many",
                            options.stages, std::ssize(unet.units()));
  });
  StageBench bench{.threads = at::get_num_threads(),
                   .precision = precision_name(config.precision.mixed_precision),
                   .micro_size = place.layout.micro_size,
                   .by_operations = parallel::stages_of(unet, options.stages)};
  std::vector<double> seconds;
  comm::agree(world, [&] {
    seconds = parallel::unit_seconds(model, place.compute_dtype, place.device,
                                     {.images = bench.micro_size, .height = image.rows(), .width = image.width},
                                     options.repeats);
  });
  comm::all_reduce(world, seconds, comm::ReduceOp::max);
  const std::vector<nn::Operations> operations = unet.unit_operations(nn::image_size(model));
  for (std::size_t u = 0; u < seconds.size(); ++u) {
    bench.units.push_back({.name = unet.units()[u]->name(),
                           .operations = operations[u].all + operations[u].backward,
                           .seconds = seconds[u]});
  }
  bench.by_seconds = layout::balanced_stages(seconds, options.stages);
  return bench;
}

}  // namespace ddpm::bench
