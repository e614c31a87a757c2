#include "train/setup.h"

#include <algorithm>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include "base/error.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "config/combinations.h"
#include "train/device.h"
#include "train/plan_request.h"
#include "train/threads.h"

namespace ddpm::train {
namespace {

at::ScalarType dtype_of(const std::string& mixed_precision) {
  if (mixed_precision == "bf16") return at::kBFloat16;
  return mixed_precision == "fp16" ? at::kHalf : at::kFloat;
}

void use_deterministic_kernels() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // nothing here reads memory that was not set
  at::globalContext().setDeterministicCuDNN(true);
}

/// Gradients on their way and gathered weights come and go in blocks of tens of megabytes. By itself glibc would soon
/// keep freed ones of up to 32 MiB in its heap, where what lies between holds them: up to a fifth of a rank's memory.
void return_large_blocks() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
#endif
}

void fit_labels(const nn::UNet2DConfig& model, const data::Dataset& dataset) {
  const std::string path = dataset.path().string();
  const bool conditional = model.num_class_embeds.has_value() || model.class_embed_type.has_value();
  if (dataset.labels().empty()) {
    if (conditional) throw base::DatasetError("{}: the model has a class embedding, but the set has no labels", path);
    return;
  }
  if (!conditional) {
    throw base::DatasetError(
        "{}: the set has labels, but the model has no class embedding: set model.num_class_embeds = {}, or "
        "data.labels = \"\" to train without them",
        path, dataset.num_classes());
  }
  const auto [least, greatest] = std::ranges::minmax_element(dataset.labels());
  if (model.num_class_embeds && (*least < 0 || *greatest >= *model.num_class_embeds)) {
    throw base::DatasetError("{}: labels reach from {} to {}, but model.num_class_embeds = {} allows 0 to {}", path,
                             *least, *greatest, *model.num_class_embeds, *model.num_class_embeds - 1);
  }
}

}  // namespace

nn::UNet2DConfig fit_model(const nn::UNet2DConfig& model, const data::Dataset& dataset) {
  const std::string path = dataset.path().string();
  const data::ImageFormat& image = dataset.image();
  if (model.in_channels != image.channels || model.out_channels != image.channels) {
    throw base::DatasetError(
        "{}: images have {} channels, but model.in_channels = {} and model.out_channels = {}: all three must agree",
        path, image.channels, model.in_channels, model.out_channels);
  }
  std::vector<int64_t> wanted = model.sample_size;
  if (wanted.size() == 1) wanted.push_back(wanted.front());
  if (!wanted.empty() && (wanted[0] != image.height || wanted[1] != image.width)) {
    throw base::DatasetError("{}: images are {} × {} (height × width), but model.sample_size = {}", path, image.height,
                             image.width, fmt::join(model.sample_size, " × "));
  }
  const int64_t multiple = nn::size_multiple(model);
  if (image.height % multiple != 0 || image.width % multiple != 0) {
    throw base::DatasetError("{}: images are {} × {}, but this model halves them {} times: a multiple of {} is wanted",
                             path, image.height, image.width, model.block_out_channels.size() - 1, multiple);
  }
  fit_labels(model, dataset);
  nn::UNet2DConfig fitted = model;
  fitted.sample_size = {image.height};
  if (image.width != image.height) fitted.sample_size.push_back(image.width);
  return fitted;
}

Setup Setup::make(const Configuration& configuration, const Runtime& runtime) {
  const Config& config = configuration.values();
  comm::MpiSession& session = runtime.session;
  comm::Communicator& world = session.world();
  comm::expect_same(world, "configuration", base::sha256_hex(config::to_toml(configuration.schema(), false)));
  comm::expect_same(world, "program", base::sha256_file("/proc/self/exe"));
  layout::BatchLayout layout;
  parallel::DataParallelSizes sizes;
  comm::agree(world, [&] {
    config::refuse_combinations(features_of(config, session.size()));
    layout = layout::BatchLayout::make(config.batch.global_size, config.batch.micro_size, session.size());
    sizes = parallel::data_parallel_sizes(config.parallel, session.size());
  });
  const at::Device device = choose_device(config.run.device, session);
  at::set_num_threads(threads_per_rank(static_cast<int>(config.run.threads_per_rank), affinity_cpu_count(),
                                       host_cpu_count(), session.local_size(), comm::process_environment()));
  if (config.run.reproducible) use_deterministic_kernels();
  if (config.parallel.zero_stage >= 2 && device.is_cpu()) return_large_blocks();

  auto dataset = data::Dataset::open(world, data::train_path(config.data), data::dataset_options(config.data));
  nn::UNet2DConfig model;
  comm::agree(world, [&] { model = fit_model(config.model, dataset); });
  const data::ImageOrder order(dataset.size(), static_cast<uint64_t>(config.run.seed),
                               data::order_options(config.data));
  comm::expect_same(world, "dataset", dataset.content_hash());
  const int64_t total_steps = config.train.total_steps(dataset.size(), config.batch.global_size);
  return {.config = config,
          .dataset = std::move(dataset),
          .order = order,
          .layout = layout,
          .sizes = sizes,
          .sharding = {.zero_stage = config.parallel.zero_stage,
                       .parts = sizes.shard,
                       .index = world.rank() % sizes.shard,
                       .segment_elements = static_cast<int64_t>(config.parallel.bucket_mib * 1024.0 * 1024.0 / 4.0)},
          .replica = {.index = world.rank() / sizes.shard, .count = sizes.replicate},
          .total_steps = total_steps,
          .model = std::move(model),
          .device = device,
          .compute_dtype = dtype_of(config.precision.mixed_precision)};
}

}  // namespace ddpm::train
