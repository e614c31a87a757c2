#include "train/sharded_training.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "comm/collectives.h"
#include "diffusion/loss.h"
#include "diffusion/noise.h"
#include "diffusion/schedule.h"
#include "layout/batch_layout.h"
#include "optim/clip.h"
#include "parallel/activation_checkpointing.h"
#include "parallel/tree_reducer.h"
#include "parallel/weight_gatherer.h"
#include "support/counting_allocator.h"
#include "train/denoising_step.h"
#include "train/update.h"

namespace ddpm::train::test {
namespace {

at::ScalarType dtype_of(const std::string& name) { return name == "bf16" ? at::kBFloat16 : at::kFloat; }

/// Everything of one training.
class Run {
 public:
  Run(const TrainingCase& chosen, comm::Communicator& comm, const diffusion::NoiseSchedule& schedule)
      : chosen_(chosen),
        comm_(comm),
        sizes_(parallel::data_parallel_sizes(chosen.parallel, comm.size())),
        layout_(layout::BatchLayout::make(kGlobalSize, chosen.micro_size, comm.size())),
        model_(chosen.model, 1, dtype_of(chosen.mixed_precision), at::kCPU, sharding()),
        gradient_groups_(comm, sizes_),
        weight_groups_(comm, sizes_),
        checkpointer_(parallel::parse_activation_checkpointing(chosen.parallel.activation_checkpointing)),
        gatherer_(model_.arena, weight_groups_, chosen.parallel.overlap, &checkpointer_),
        reducer_(make_reducer()),
        schedule_(schedule) {
    model_.initialize(kWeightSeed);
    gatherer_.weights_changed();
  }

  void step(int64_t index, TrainingResult& result) {
    model_.progress.step = index;
    const DenoisingStep denoising{model_.unet, schedule_, diffusion_, kNoiseSeed, gatherer_};
    LossSums sums;
    reducer_->begin_step();
    for (int64_t micro = 0; micro < layout_.accumulation_steps(); ++micro) {
      data::MicroBatch batch;
      batch.step = index;
      batch.positions = layout_.positions(comm_.rank(), micro);
      reducer_->begin_micro_batch(micro + 1 == layout_.accumulation_steps());
      sums += denoising.forward_backward(batch, images(index, batch.positions, chosen_.model.sample_size.front()), {},
                                         1.0 / kGlobalSize);
      reducer_->end_micro_batch();
      gatherer_.release_all();
    }
    reducer_->finalize();
    const double norm = gradient_norm();
    result.losses.push_back(comm::all_reduce(comm_, sums.loss, comm::ReduceOp::sum) / kGlobalSize);
    result.gradient_norms.push_back(norm);
    ++model_.progress.applied_updates;
    apply_update(model_, {.eps = chosen_.eps}, {}, 1e-3, optim::clip_coefficient(norm, 1.0));
    gatherer_.weights_changed();
  }

  at::Tensor weights() const { return whole(model_.arena.master()); }
  at::Tensor gradients() const { return whole(model_.arena.gradient_pieces()); }

 private:
  /// Without the arena's padding, which depends on the layout.
  at::Tensor whole(const parallel::StateBuffer& state) const {
    const at::Tensor whole = parallel::gather_whole(model_.arena, state, weight_groups_.shard(), /*keep=*/true);
    std::vector<at::Tensor> parts;
    for (const auto& entry : model_.arena.entries()) {
      parts.push_back(whole.narrow(0, entry.range.begin, entry.range.size()));
    }
    return at::cat(parts);
  }

  parallel::Sharding sharding() const {
    return {.zero_stage = chosen_.parallel.zero_stage,
            .parts = sizes_.shard,
            .index = comm_.rank() % sizes_.shard,
            .segment_elements = static_cast<int64_t>(chosen_.parallel.bucket_mib * 1024.0 * 1024.0 / 4.0)};
  }

  std::unique_ptr<parallel::GradientReducer> make_reducer() {
    if (chosen_.reproducible) return std::make_unique<parallel::TreeReducer>(model_.arena, gradient_groups_);
    auto reducer = std::make_unique<parallel::OverlappedReducer>(model_.arena, gradient_groups_, chosen_.parallel);
    reducer->on_segment_complete([this](std::size_t segment) { gatherer_.release(segment); });
    return reducer;
  }

  double gradient_norm() {
    if (sizes_.shard == 1 || chosen_.reproducible) return std::sqrt(sum_of_squares(model_.arena.gradient()));
    double squares = 0.0;
    for (const at::Tensor& piece : model_.arena.gradient_pieces()) squares += sum_of_squares(piece);
    squares = comm::all_reduce(comm_, squares, comm::ReduceOp::sum);
    return std::sqrt(squares / static_cast<double>(sizes_.replicate));
  }

  const TrainingCase& chosen_;
  comm::Communicator& comm_;
  parallel::DataParallelSizes sizes_;
  layout::BatchLayout layout_;
  ModelState model_;
  parallel::DataParallelGroups gradient_groups_;
  parallel::DataParallelGroups weight_groups_;
  parallel::ActivationCheckpointer checkpointer_;
  parallel::WeightGatherer gatherer_;
  std::unique_ptr<parallel::GradientReducer> reducer_;
  diffusion::DiffusionConfig diffusion_;
  const diffusion::NoiseSchedule& schedule_;
};

}  // namespace

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
  return fmt::format("stage {} shard {} micro {} {} {} bucket {} MiB overlap {} compression {} checkpointing {}",
                     parallel.zero_stage, parallel.dp_shard_size.value_or(0), micro_size, mixed_precision,
                     reproducible ? "reproducible" : "fast", parallel.bucket_mib, parallel.overlap,
                     parallel.gradient_compression, parallel.activation_checkpointing);
}

TrainingResult train(const TrainingCase& chosen, comm::Communicator& comm, int steps) {
  const diffusion::NoiseSchedule schedule(diffusion::DiffusionConfig().scheduler);
  TrainingResult result;
  Run run(chosen, comm, schedule);
  for (int step = 0; step < steps; ++step) run.step(step, result);
  result.weights = run.weights();
  result.gradients = run.gradients();
  return result;
}

int64_t counted_state_bytes(const TrainingCase& chosen, comm::Communicator& comm, int steps) {
  const diffusion::NoiseSchedule schedule(diffusion::DiffusionConfig().scheduler);
  ddpm::test::CountingAllocator& allocator = ddpm::test::CountingAllocator::install();
  const int64_t before = allocator.bytes();
  TrainingResult unused;
  Run run(chosen, comm, schedule);
  for (int step = 0; step < steps; ++step) run.step(step, unused);
  return allocator.bytes() - before;
}

double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

}  // namespace ddpm::train::test
