#include "run/placement.h"

#include <functional>
#include <numeric>

#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "config/resolve.h"
#include "device/choose_device.h"
#include "device/host_memory.h"
#include "device/threads.h"

namespace ddpm::run {
namespace {

at::ScalarType dtype_of(optim::MixedPrecision precision) {
  switch (precision) {
    case optim::MixedPrecision::no:
      return at::kFloat;
    case optim::MixedPrecision::bf16:
      return at::kBFloat16;
    case optim::MixedPrecision::fp16:
      return at::kHalf;
  }
  throw base::InternalError("precision {}", static_cast<int>(precision));
}

/// The product. What is more than any job has ranks is as many as can be told.
int64_t tiles_of(const std::vector<int64_t>& spatial_size) {
  constexpr int64_t kMost = int64_t{1} << 48;
  int64_t tiles = 1;
  for (const int64_t parts : spatial_size) tiles = parts > kMost / tiles ? kMost : tiles * parts;
  return tiles;
}

}  // namespace

layout::Parallelism parallelism_of(const CommonConfig& config) {
  const parallel::ParallelConfig& parallel = config.parallel;
  return {.reproducible = config.run.reproducible,
          .threads_per_rank = config.run.threads_per_rank,
          .zero_stage = parallel.zero_stage,
          .offload = parallel.offload,
          .gradient_compression = parallel.gradient_compression,
          .global_size = config.batch.global_size,
          .micro_size = config.batch.micro_size,
          .dp_shard_size = parallel.dp_shard_size,
          .dp_replicate_size = parallel.dp_replicate_size,
          .tiles = tiles_of(parallel.spatial_size),
          .tensor_size = parallel.tensor_size,
          .pipeline_size = parallel.pipeline_size,
          .stage_units = parallel.stage_units,
          .sync_every = parallel.sync_every};
}

void expect_same_program(const config::Schema& configuration, comm::Communicator& world) {
  comm::expect_same(world, "configuration", base::sha256_hex(config::to_toml(configuration, false)));
  comm::expect_same(world, "program", base::sha256_file("/proc/self/exe"));
}

Placement Placement::make(const CommonConfig& config, comm::MpiSession& session, const base::Logger& log) {
  const RunConfig& run = config.run;
  comm::Communicator& world = session.world();
  const layout::Parallelism parallelism = parallelism_of(config);
  layout::Mesh mesh;
  layout::BatchLayout layout;
  comm::agree(world, [&] {
    layout::refuse_combinations(parallelism, world.size());
    mesh = parallelism.mesh(world.size());
    layout = parallelism.batch(mesh);
  });
  for (const std::string& line : layout::warnings(parallelism, world.size())) log.warn("{}", line);
  const at::Device device = device::choose_device(run.device, session, log, config.parallel.share_gpus);
  if (config.precision.mixed_precision == optim::MixedPrecision::bf16) device::expect_bf16(device, world);
  const bool has_parts = parallelism.tensor_size > 1;  // whose weights that are not cut nobody sums
  device::start_threads(static_cast<int>(run.threads_per_rank), session, has_parts);
  device::choose_kernels(
      device,
      {.reproducible = run.reproducible, .allow_tf32 = config.precision.allow_tf32, .same_on_ranks = has_parts});
  if (device.is_cpu()) {
    device::set_up_host_memory(parallelism.zero_stage >= 2 ? device::FreedMemory::returned : device::FreedMemory::kept);
  }
  return {.parallelism = parallelism,
          .mesh = mesh,
          .rank = world.rank(),
          .layout = layout,
          .sharding = parallel::Sharding::make(parallelism, mesh, world.rank(), config.parallel.bucket_mib),
          .replica = Replica::of(mesh, world.rank()),
          .device = device,
          .compute_dtype = dtype_of(config.precision.mixed_precision)};
}

engine::StepRules rules_of(const CommonConfig& config, const Placement& place, int64_t total_steps) {
  return {.parallelism = place.parallelism,
          .mesh = place.mesh,
          .layout = place.layout,
          .total_steps = total_steps,
          .overlap = config.parallel.overlap,
          .outer = config.parallel.outer,
          .optimizer = config.optimizer,
          .lr_schedule = config.lr_schedule,
          .ema = config.ema,
          .precision = config.precision,
          .skip_nonfinite = config.fault.skip_nonfinite,
          .compare_replicas_every = config.fault.compare_replicas_every};
}

}  // namespace ddpm::run
