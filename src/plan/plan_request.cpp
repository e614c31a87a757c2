#include "plan/plan_request.h"

#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/ranges.h>
#include <unistd.h>

#include "base/binary_units.h"
#include "checkpoint/run_files.h"
#include "data/loader.h"
#include "denoise/mean_model.h"
#include "device/threads.h"
#include "diffusion/scheduler_json.h"
#include "interop/diffusers_reader.h"
#include "plan/model_sizes.h"
#include "run/placement.h"
#include "train/config.h"
#include "train/fitted_model.h"

namespace ddpm::plan {
namespace {

/// Measured on the host: copies in other orders, and gaps between blocks in use. On a GPU the caching allocator's
/// rounding.
double workspace_share(bool on_host) { return on_host ? 0.05 : 0.1; }

/// Bytes of this process in memory now.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  int64_t resident = 0;
  file >> pages >> resident;
  return resident * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

/// Epochs are taken to be longer than the way to the first checkpoint. The first validation is the best so far, which
/// is saved, too.
bool saves_while_training(const train::Config& config) {
  const int64_t steps = config.train.steps.value_or(engine::kMaxSteps);
  const int64_t validation = config.validation.every_steps;
  return config.checkpoint.async && (steps > config.checkpoint.every_steps || (validation > 0 && steps > validation));
}

int64_t read_ahead_bytes(const train::Config& config, int64_t stored_bytes, const Arrangement& a) {
  const int64_t batch_bytes = a.parallelism.micro_size * stored_bytes;
  const int64_t steps = config.train.steps.value_or(std::numeric_limits<int32_t>::max());
  return data::micro_batches_held(config.data.prefetch, batch_bytes, steps * a.accumulation_steps(),
                                  data::read_together_bytes(a.parallelism.tiles)) *
         batch_bytes;
}

/// The regression at `path`, a run or a model folder, for images like `image`.
nn::UNet2DConfig read_regression(const base::Path& path, const data::ImageFormat& image) {
  nn::UNet2DConfig config;
  diffusion::Formulation formulation = diffusion::Formulation::ddpm;
  if (interop::is_model_folder(path)) {
    config = interop::read_model_config(path);
    const auto scheduler = interop::read_scheduler(path);
    if (scheduler) formulation = diffusion::formulation_of(scheduler->json, scheduler->path.string());
  } else {
    denoise::RunModel run = train::read_run_model(path / checkpoint::kConfigName);
    formulation = run.scheduler.formulation;
    config = std::move(run.unet);
  }
  denoise::expect_regression(formulation, path.string());
  config.sample_size = image.sides();
  return config;
}

/// The weights and the forward pass of a regression.
void add_mean_model(const nn::UNet2DConfig& config, const data::ImageFormat& image, int64_t micro_size,
                    const layout::Tiling& tiling, bool on_gpu, ModelSizes& sizes) {
  const ModelSizes mean =
      model_sizes(config, image, 1, /*mixed_precision=*/false, parallel::ActivationCheckpointing::none);
  sizes.constants += mean.parameters + mean.constants;
  sizes.mean_flops = mean.forward_flops;
  add_forward_traffic(config, tiling, micro_size, on_gpu, sizes);
}

}  // namespace

Arrangement arrangement_of(const train::Config& config, int64_t nodes, int64_t ranks_per_node) {
  const layout::Parallelism parallelism = run::parallelism_of(config);
  layout::refuse_on_any_ranks(parallelism);
  return {.nodes = nodes,
          .ranks_per_node = ranks_per_node,
          .parallelism = parallelism,
          .mixed_precision = config.precision.mixed_precision != optim::MixedPrecision::no,
          .averages = static_cast<int64_t>(config.ema.count()),
          .overlap = config.parallel.overlap,
          .bucket_mib = config.parallel.bucket_mib,
          .saves_while_training = saves_while_training(config)};
}

StoredSizes StoredSizes::of(const train::Config& config, const denoise::Patch& patch, const data::Dataset& dataset) {
  StoredSizes stored{.bytes = train::bytes_read(patch, dataset)};
  for (const data::Field& field : dataset.info().fields) {
    for (const data::Variable& variable : field.variables) {
      if (variable.transform.has_grid()) stored.grid_points += variable.transform.grid->points();
    }
  }
  if (config.data.hold) stored.held_bytes = dataset.size() * static_cast<int64_t>(dataset.block_bytes());
  return stored;
}

StoredSizes StoredSizes::whole(int64_t bytes) {
  return {.bytes = [bytes](const layout::Tiling&) { return bytes; }};
}

Request plan_request(const train::Config& config, const nn::UNet2DConfig& model, const data::ImageFormat& image,
                     const StoredSizes& stored, const PlanPlace& place) {
  Request request;
  request.given = arrangement_of(config, place.nodes, place.ranks_per_node);
  request.given.on_device = !place.on_host;
  const std::vector<std::string> refusals = layout::refusals(request.given.parallelism, request.given.ranks());
  if (!refusals.empty()) request.given_refusal = refusals.front();
  const layout::Tiling tiling = train::tiling_of(config.parallel.spatial_size, image, model);
  std::optional<nn::UNet2DConfig> regression;
  if (config.diffusion.mean_model) regression = read_regression(*config.diffusion.mean_model, image);
  train::expect_tiling(config, model, regression ? &*regression : nullptr, tiling);
  request.model = model_sizes(model, image, request.given.parallelism.micro_size, request.given.mixed_precision,
                              config.parallel.activation_checkpointing,
                              {.tiling = tiling,
                               .channel_parts = config.parallel.tensor_size,
                               .stages = config.parallel.pipeline_size,
                               .stage_units = config.parallel.stage_units,
                               .on_gpu = !place.on_host});
  if (regression) {
    add_mean_model(*regression, image, request.given.parallelism.micro_size, tiling, !place.on_host, request.model);
  }
  request.model.image_bytes = stored.bytes(tiling);
  request.model.grid_points = stored.grid_points;
  request.model.workspace_share = workspace_share(place.on_host);
  request.given.read_ahead_bytes = read_ahead_bytes(config, request.model.image_bytes, request.given);
  request.given.held_bytes = (stored.held_bytes + place.ranks_per_node - 1) / place.ranks_per_node;
  const int threads =
      device::threads_per_rank(static_cast<int>(config.run.threads_per_rank), static_cast<int>(place.ranks_per_node));
  request.machine = find_machine(place.machine, threads, place.ranks_per_node);
  request.machine.memory_gib = place.gpu_gib.value_or(request.machine.memory_gib);
  override_machine(request.machine, place.overrides);
  request.process_bytes = process_bytes(place.on_host);
  const double gib = place.memory_gib.value_or(request.machine.memory_gib);
  if (gib > 0.0) request.limit_bytes = static_cast<int64_t>(gib * base::kGiB);
  return request;
}

int64_t process_bytes(bool on_host) {
  // Measured: kernels that oneDNN generates, its and MPI's workspaces, stacks of threads, HDF5, the allocator's slack.
  constexpr int64_t kTrainingOnHost = int64_t{46} << 20;
  // CUDA context, cuDNN and cuBLAS workspaces, NCCL buffers.
  constexpr int64_t kOnDevice = int64_t{1536} << 20;
  return on_host ? resident_bytes() + kTrainingOnHost : kOnDevice;
}

}  // namespace ddpm::plan
