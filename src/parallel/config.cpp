#include "parallel/config.h"

namespace ddpm::parallel {
namespace {

// Their product is an integer, and a bucket's number of elements too.
constexpr double kMaxRanks = 1 << 24;
constexpr double kMaxSteps = 1 << 24;
constexpr double kMaxBucketMib = 1 << 20;

}  // namespace

void describe(config::Section& section, ParallelConfig& c) {
  section
      .key("zero_stage", c.zero_stage,
           "What the ranks of a shard group hold a share of instead of all: 0 nothing, 1 optimizer state and averages, "
           "2 also gradients, 3 also weights.",
           {.min = 0, .max = 3})
      .key("dp_shard_size", c.dp_shard_size,
           "Ranks that share one copy of the state; unset: all that see different images, or the share of them that "
           "dp_replicate_size leaves to a copy.",
           {.min = 1, .max = kMaxRanks})
      .key("dp_replicate_size", c.dp_replicate_size,
           "Copies of the state; pipeline_size × dp_replicate_size × dp_shard_size × the tiles of spatial_size × "
           "tensor_size is the number of ranks.",
           {.min = 1, .max = kMaxRanks})
      .key("spatial_size", c.spatial_size,
           "Tiles into which images are cut along each axis, each on a rank of its own: [2, 2] are four; "
           "a number cuts the height. For images whose activations one rank cannot hold.",
           {.min = 1, .max = kMaxRanks})
      .key(
          "tensor_size", c.tensor_size,
          "Parts into which residual blocks and attention are cut by channels, each on a rank of its own; a divisor of "
          "norm_num_groups and of the heads. For models whose width one rank cannot hold; wants the fastest links.",
          {.min = 1, .max = kMaxRanks})
      .key("pipeline_size", c.pipeline_size,
           "Stages into which the model is cut along its depth, each on a rank of its own, through which "
           "micro-batches pass one after the other. For models that one rank cannot hold, over links that are too slow "
           "for all else; wants many accumulation steps.",
           {.min = 1, .max = kMaxRanks})
      .key("stage_units", c.stage_units,
           "With pipeline_size: how many of the model's units each stage has, as `ddpm bench stages` recommends it; "
           "unset: stages of about equally many operations.",
           {.min = 1, .max = kMaxRanks})
      .key("sync_every", c.sync_every,
           "Steps between two averages of the copies of the state (dp_replicate_size), each of which is updated on its "
           "own meanwhile: for links so slow that gradients cannot be summed at every step. 0: they are.",
           {.min = 0, .max = kMaxSteps})
      .key("outer_learning_rate", c.outer.learning_rate,
           "With sync_every: how far all copies move, by Nesterov's momentum, towards their average.",
           {.min = 0, .above_min = true})
      .key("outer_momentum", c.outer.momentum,
           "With sync_every: the momentum of that. Many outer steps may learn faster with 0.9.",
           {.min = 0, .max = 1, .below_max = true})
      .key("offload", c.offload,
           "What is in host memory instead of a GPU's: nothing; optimizer: master weights, moments and averages, "
           "updated by the CPU; parameters: with zero_stage = 3 the weights too. Without a GPU it saves nothing.")
      .key("activation_checkpointing", c.activation_checkpointing,
           "What is computed again in the backward pass instead of kept in memory: nothing, the attention blocks, or "
           "every block. Gradients have the same bits.")
      .key("bucket_mib", c.bucket_mib, "Gradients are summed over the ranks in buckets of about this size, in MiB.",
           {.min = 0.001, .max = kMaxBucketMib})
      .key("overlap", c.overlap,
           "Sum gradients while backward still runs, and compute while weights and borders of tiles travel; false: one "
           "after the other.")
      .key("gradient_compression", c.gradient_compression,
           "Dtype in which gradients travel between ranks; none: float32.")
      .key("share_gpus", c.share_gpus,
           "Several ranks of a node may compute on one GPU, to try what needs several ranks where there is one. What "
           "travels goes by way of host memory and MPI instead of NCCL, and steps are launched operation by operation: "
           "slower than one rank.");
}

}  // namespace ddpm::parallel
