#include "engine/sharded_training.h"

#include <algorithm>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include "denoise/denoising_loss.h"
#include "diffusion/formulation.h"
#include "diffusion/loss.h"
#include "engine/counting_allocator.h"
#include "engine/optimizer_step.h"
#include "layout/batch_layout.h"
#include "parallel/activation_checkpointing.h"
#include "parallel/whole_tensors.h"

namespace ddpm::engine::test {
namespace {

at::ScalarType dtype_of(const std::string& name) {
  if (name == "bf16") return at::kBFloat16;
  return name == "fp16" ? at::kHalf : at::kFloat;
}

/// Everything of one training, without data sets and files.
class Run {
 public:
  Run(const TrainingCase& chosen, comm::Communicator& comm, const diffusion::ForwardProcess& process)
      : chosen_(chosen),
        side_(chosen.model.sample_size.front()),
        comm_(comm),
        rules_(rules(chosen, comm)),
        model_(made(chosen), 1, dtype_of(chosen.mixed_precision), at::kCPU, sharding()),
        groups_(comm, rules_.mesh),
        checkpointer_(chosen.parallel.activation_checkpointing),
        step_(rules_, model_, comm, comm, {.losses = denoise::LossSums::kCount, .votes = chosen.votes}, &checkpointer_),
        process_(process) {
    model_.initialize(kWeightSeed);
    step_.state_changed();
  }

  void step(int64_t index, bool last, TrainingResult& result) {
    if (chosen_.reload) step_.state_changed();
    const denoise::DenoisingLoss denoising{model_.unet, process_, kNoiseSeed, step_.weights()};
    std::vector<at::Tensor> rows;
    const auto forward_backward = [&](int64_t micro, const at::Tensor& loss_factor) {
      const layout::Range positions = rules_.layout.positions(comm_.rank(), micro);
      const at::Tensor x0 = images(index, positions, side_);
      if (chosen_.poisoned && chosen_.poisoned(index)) x0.fill_(std::numeric_limits<float>::quiet_NaN());
      rows.push_back(denoising.forward_backward(
          {.step = index, .positions = positions, .step_on_device = at::scalar_tensor(index, at::kLong), .x0 = x0},
          loss_factor, step_.parts()));
    };
    step_.begin();
    step_.accumulate(forward_backward, [] { return false; });
    step_.add_sums(std::vector<double>(static_cast<std::size_t>(chosen_.votes), 1.0));
    step_.update(denoise::tree_sum(rows));
    step_.submit();
    result.most_under_way = std::max(result.most_under_way, step_.under_way());
    const bool settle = last || !chosen_.ahead;
    while (step_.under_way() > (settle ? 0 : step_.may_stay_under_way())) finish(result);
  }

  train::UNetState& model() { return model_; }
  at::Tensor weights() const { return whole(model_.arena.master()); }
  at::Tensor average() const { return whole(model_.ema.front()); }
  at::Tensor gradients() const { return whole(model_.arena.gradient_pieces()); }

 private:
  void finish(TrainingResult& result) {
    std::vector<double> sums(denoise::LossSums::kCount + static_cast<std::size_t>(chosen_.votes));
    const UpdateVerdict outcome = step_.finish(sums);
    result.gradient_norms.push_back(outcome.gradient_norm);
    result.learning_rates.push_back(outcome.learning_rate);
    result.losses.push_back(sums.front() / kGlobalSize);
    result.progress.push_back(model_.progress);
  }

  /// Leaves out the arena's padding, which depends on the layout.
  at::Tensor whole(const parallel::StateBuffer& state) const {
    const at::Tensor whole = parallel::gather_whole(model_.arena, state, groups_.shard(), /*keep=*/true);
    std::vector<at::Tensor> parts;
    for (const auto& entry : model_.arena.entries()) {
      parts.push_back(whole.narrow(0, entry.range.begin, entry.range.size()));
    }
    return at::cat(parts);
  }

  static nn::UNet2D made(const TrainingCase& chosen) {
    nn::UNet2D model(chosen.model);
    if (chosen.change_roles) chosen.change_roles(model);
    return model;
  }

  static StepRules rules(const TrainingCase& chosen, const comm::Communicator& comm) {
    const layout::Parallelism parallelism = parallelism_of(chosen);
    const layout::Mesh mesh = parallelism.mesh(comm.size());
    StepRules rules{
        .parallelism = parallelism,
        .mesh = mesh,
        .layout = parallelism.batch(mesh),
        .overlap = chosen.parallel.overlap,
        .outer = chosen.parallel.outer,
        .optimizer = {.learning_rate = 1e-3, .eps = chosen.eps},
        .lr_schedule = {.name = optim::LrShape::constant},
        .precision = {.mixed_precision = base::find_named<optim::MixedPrecision>(chosen.mixed_precision).value()},
        .compare_replicas_every = chosen.ahead ? 0 : 1};
    if (chosen.change_rules) chosen.change_rules(rules);
    return rules;
  }

  parallel::Sharding sharding() const {
    return parallel::Sharding::make(rules_.parallelism, rules_.mesh, comm_.rank(), chosen_.parallel.bucket_mib);
  }

  TrainingCase chosen_;
  int64_t side_;
  comm::Communicator& comm_;
  StepRules rules_;
  train::UNetState model_;
  parallel::GradientGroups groups_;
  parallel::ActivationCheckpointer checkpointer_;
  OptimizerStep step_;
  const diffusion::ForwardProcess& process_;
};

}  // namespace

layout::Parallelism parallelism_of(const TrainingCase& chosen) {
  return {.reproducible = chosen.reproducible,
          .threads_per_rank = 1,
          .zero_stage = chosen.parallel.zero_stage,
          .offload = chosen.parallel.offload,
          .gradient_compression = chosen.parallel.gradient_compression,
          .global_size = kGlobalSize,
          .micro_size = chosen.micro_size,
          .dp_shard_size = chosen.parallel.dp_shard_size,
          .dp_replicate_size = chosen.parallel.dp_replicate_size,
          .sync_every = chosen.parallel.sync_every};
}

nn::UNet2DConfig tiny_unet() {
  nn::UNet2DConfig c;
  c.sample_size = {8};
  c.block_out_channels = {8, 16};
  c.layers_per_block = 1;
  c.down_block_types = {"DownBlock2D", "AttnDownBlock2D"};
  c.up_block_types = {"AttnUpBlock2D", "UpBlock2D"};
  c.norm_num_groups = 4;
  return c;
}

at::Tensor images(int64_t step, layout::Range positions, int64_t side) {
  at::Tensor x = at::empty({positions.size(), 3, side, side});
  auto* value = x.mutable_data_ptr<float>();
  for (int64_t p = positions.begin; p < positions.end; ++p) {
    for (int64_t i = 0; i < 3 * side * side; ++i) {
      *value++ = std::sin(static_cast<float>(i % side) * 0.3F * static_cast<float>(1 + (p + step) % 7) +
                          static_cast<float>(i / side) * 0.2F * static_cast<float>(1 + p % 5));
    }
  }
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

std::string TrainingCase::text() const {
  return fmt::format(
      "stage {} shard {} micro {} {} {} bucket {} MiB overlap {} compression {} checkpointing {} offload {}",
      parallel.zero_stage, parallel.dp_shard_size.value_or(0), micro_size, mixed_precision,
      reproducible ? "reproducible" : "fast", parallel.bucket_mib, parallel.overlap,
      base::name_of(parallel.gradient_compression), base::name_of(parallel.activation_checkpointing),
      base::name_of(parallel.offload));
}

TrainingResult train(const TrainingCase& chosen, comm::Communicator& comm, int steps) {
  const diffusion::ForwardProcess process(diffusion::DiffusionConfig{});
  TrainingResult result;
  Run run(chosen, comm, process);
  for (int step = 0; step < steps; ++step) run.step(step, step + 1 == steps, result);
  result.weights = run.weights();
  result.average = run.average();
  result.gradients = run.gradients();
  if (chosen.at_end) chosen.at_end(run.model());
  return result;
}

int64_t counted_state_bytes(const TrainingCase& chosen, comm::Communicator& comm, int steps) {
  const diffusion::ForwardProcess process(diffusion::DiffusionConfig{});
  ddpm::test::CountingAllocator& allocator = ddpm::test::CountingAllocator::install();
  const int64_t before = allocator.bytes();
  TrainingResult unused;
  Run run(chosen, comm, process);
  for (int step = 0; step < steps; ++step) run.step(step, step + 1 == steps, unused);
  return allocator.bytes() - before;
}

}  // namespace ddpm::engine::test
