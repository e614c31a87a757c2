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
#include "train/denoising_step.h"
#include "train/update.h"

namespace ddpm::train::test {
namespace {

constexpr int64_t kSide = 8;

nn::UNet2DConfig tiny_unet() {
  nn::UNet2DConfig c;
  c.sample_size = {kSide};
  c.block_out_channels = {8, 16};
  c.layers_per_block = 1;
  c.down_block_types = {"DownBlock2D", "AttnDownBlock2D"};
  c.up_block_types = {"AttnUpBlock2D", "UpBlock2D"};
  c.norm_num_groups = 4;
  return c;
}

/// Image `position` of step `step`: waves of many directions, the same on every rank.
at::Tensor images(int64_t step, layout::Range positions) {
  at::Tensor x = at::empty({positions.size(), 3, kSide, kSide});
  auto* value = x.mutable_data_ptr<float>();
  for (int64_t p = positions.begin; p < positions.end; ++p) {
    for (int64_t i = 0; i < 3 * kSide * kSide; ++i) {
      *value++ = std::sin(static_cast<float>(i % kSide) * 0.3F * static_cast<float>(1 + (p + step) % 7) +
                          static_cast<float>(i / kSide) * 0.2F * static_cast<float>(1 + p % 5));
    }
  }
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

at::ScalarType dtype_of(const std::string& name) { return name == "bf16" ? at::kBFloat16 : at::kFloat; }

/// Everything of one training, put together as train/optimizer_step.cpp does, but without data sets and files.
class Run {
 public:
  Run(const TrainingCase& chosen, comm::Communicator& comm)
      : chosen_(chosen),
        comm_(comm),
        sizes_(parallel::data_parallel_sizes(chosen.parallel, comm.size())),
        layout_(layout::BatchLayout::make(kGlobalSize, chosen.micro_size, comm.size())),
        model_(tiny_unet(), 1, dtype_of(chosen.mixed_precision), at::kCPU, sharding()),
        gradient_groups_(comm, sizes_),
        weight_groups_(comm, sizes_),
        checkpointer_(parallel::parse_activation_checkpointing(chosen.parallel.activation_checkpointing)),
        gatherer_(model_.arena, weight_groups_, chosen.parallel.overlap, &checkpointer_),
        reducer_(make_reducer()),
        schedule_(diffusion_.scheduler) {
    model_.initialize(/*seed=*/5);
    gatherer_.weights_changed();
  }

  void step(int64_t index, TrainingResult& result) {
    model_.progress.step = index;
    const DenoisingStep denoising{model_.unet, schedule_, diffusion_, /*seed=*/7, gatherer_};
    LossSums sums;
    reducer_->begin_step();
    for (int64_t micro = 0; micro < layout_.accumulation_steps(); ++micro) {
      data::MicroBatch batch;
      batch.step = index;
      batch.positions = layout_.positions(comm_.rank(), micro);
      reducer_->begin_micro_batch(micro + 1 == layout_.accumulation_steps());
      sums += denoising.forward_backward(batch, images(index, batch.positions), {}, 1.0 / kGlobalSize);
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

  /// Without the arena's padding, which depends on the layout.
  at::Tensor weights() {
    const at::Tensor whole =
        parallel::gather_whole(model_.arena, model_.arena.master(), weight_groups_.shard(), /*keep=*/true);
    std::vector<at::Tensor> parts;
    for (const auto& entry : model_.arena.entries()) {
      parts.push_back(whole.narrow(0, entry.range.begin, entry.range.size()));
    }
    return at::cat(parts);
  }

  int64_t state_bytes() const {
    std::size_t bytes = model_.arena.gradient().nbytes() + model_.arena.working().nbytes();
    const auto add = [&bytes](const parallel::StateBuffer& state) {
      for (const at::Tensor& piece : state) bytes += piece.nbytes();
    };
    if (model_.arena.mixed_precision()) add(model_.arena.master());
    add(model_.exp_avg);
    add(model_.exp_avg_sq);
    for (const auto& average : model_.ema) add(average);
    return static_cast<int64_t>(bytes);
  }

 private:
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
  diffusion::NoiseSchedule schedule_;
};

}  // namespace

std::string TrainingCase::text() const {
  return fmt::format("stage {} shard {} micro {} {} {} bucket {} MiB overlap {} compression {} checkpointing {}",
                     parallel.zero_stage, parallel.dp_shard_size.value_or(0), micro_size, mixed_precision,
                     reproducible ? "reproducible" : "fast", parallel.bucket_mib, parallel.overlap,
                     parallel.gradient_compression, parallel.activation_checkpointing);
}

TrainingResult train(const TrainingCase& chosen, comm::Communicator& comm, int steps) {
  TrainingResult result;
  Run run(chosen, comm);
  for (int step = 0; step < steps; ++step) run.step(step, result);
  result.weights = run.weights();
  result.state_bytes = run.state_bytes();
  return result;
}

double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

}  // namespace ddpm::train::test
