// What a plan is made from: a model as numbers, and an arrangement of its training over ranks. No LibTorch here, so
// that the arithmetic over them is tested, and used, without a model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "layout/parallelism.h"
#include "layout/pipeline.h"
#include "parallel/config.h"

namespace ddpm::plan {

/// What backward needs of the micro-batches that are on their way at once.
struct ActivationBytes {
  int64_t kept = 0;          ///< as ModelSizes::checkpointing has it
  int64_t all = 0;           ///< without checkpointing
  int64_t float_copies = 0;  ///< what CPUs take beside them (parallel::ActivationCount::peak_on_cpus)
};

/// A model and its images as numbers.
struct ModelSizes {
  /// Trained, by unit in execution order; each parameter padded to 64 bytes. Of blocks that are cut by channels, and of
  /// a pipeline's stages, what one rank holds: so are the next four.
  std::vector<int64_t> unit_elements = {};
  int64_t held_parameters = 0;    ///< trained, without padding, with all that is not cut
  int64_t largest_parameter = 0;  ///< elements of the largest
  int64_t constants = 0;          ///< elements that are not trained, float32
  int64_t pretrained = 0;         ///< elements beside adapters, in the compute dtype, whole on each rank
  int64_t parameters = 0;         ///< trained, without padding, of the whole model
  int64_t image_elements = 0;     ///< pixels × channels that the model is given
  int64_t image_bytes = 0;        ///< as stored in the dataset
  int64_t grid_points = 0;        ///< points of all variables whose transform has a scale for each point

  /// With micro-batches of `activation_images`, of the largest tile where images are cut: in steps of 1, 2, ...
  /// micro-batches. The last one is that of all longer steps: a stage of a pipeline keeps no more than there are
  /// stages.
  std::vector<ActivationBytes> activations = {{}};
  int64_t activation_images = 1;

  double tile_share = 1.0;  ///< the largest tile's part of an image's pixels

  /// What a tile sends to others of its images for a micro-batch of `activation_images`, with what `checkpointing` has
  /// sent again; of a pipeline, in the stage that sends most.
  int64_t tile_messages = 0;
  int64_t tile_bytes = 0;
  /// The part of these that travels while convolutions are computed.
  int64_t border_messages = 0;
  int64_t border_bytes = 0;
  /// What is summed over the ranks with other channels of the same blocks, for as many images.
  int64_t channel_sums = 0;
  int64_t channel_bytes = 0;
  /// What a stage of a pipeline sends to others for as many images, forward and backward.
  int64_t stage_messages = 0;
  int64_t stage_bytes = 0;
  int64_t hop_bytes = 0;         ///< what passes from a stage to others for as many images, and comes back as gradients
  double workspace_share = 0.0;  ///< scratch memory of kernels and the allocator's slack, per byte of those
  parallel::ActivationCheckpointing checkpointing = parallel::ActivationCheckpointing::none;

  double forward_flops = 0.0;    ///< per image: convolutions, linear layers and attention, 2 per multiply-add; where
                                 ///< blocks are cut by channels, what one rank computes; with stages, the slowest's
  double attention_flops = 0.0;  ///< the part of it in attention
  double backward_flops = 0.0;   ///< per image, without what activation checkpointing computes again
  double mean_flops = 0.0;       ///< per image: the regression of diffusion.mean_model, which has no backward pass

  /// Σ unit_elements: the Ψ of the formulas, before padding to whole parts.
  [[nodiscard]] int64_t elements() const;
  /// What `images` images need, of which `activation_images` need so many bytes. Many images must not overflow.
  [[nodiscard]] int64_t bytes_for(int64_t images, int64_t bytes) const {
    return bytes / activation_images * images + bytes % activation_images * images / activation_images;
  }
};

/// How the ranks train it: the keys that matter, with derived values filled in.
struct Arrangement {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  layout::Parallelism parallelism = {};
  bool mixed_precision = false;  ///< weights and activations take 2 bytes; 4 otherwise
  int64_t averages = 1;          ///< EMAs
  bool overlap = true;
  bool on_device = false;  ///< forward and backward run on a GPU with memory of its own
  double bucket_mib = 25.0;
  int64_t read_ahead_bytes = 0;       ///< size of the images that wait in host memory for their step
  int64_t held_bytes = 0;             ///< a rank's part of the set that data.hold keeps in its host's memory
  bool saves_while_training = false;  ///< checkpoint.async, and one is saved before the last step

  [[nodiscard]] int64_t ranks() const { return nodes * ranks_per_node; }
  /// The ranks as a grid, for an arrangement that layout::refusals() accepts.
  [[nodiscard]] layout::Mesh mesh() const { return parallelism.mesh(ranks()); }
  /// Ranks that share one copy of the state: consecutive ones; 1 in stage 0. It is at least 1, even for a refused
  /// arrangement.
  [[nodiscard]] int64_t shard_size() const;
  /// Ranks that share a global batch. At least 1 for what is refused, too.
  [[nodiscard]] int64_t data_parallel_size() const { return parallelism.data_parallel_size(ranks()); }
  [[nodiscard]] int64_t accumulation_steps() const {
    // The product of absurd sizes, which are refused, may be 0 where it overflows.
    return parallelism.global_size / parallelism.micro_size / data_parallel_size();
  }
  /// Images of a step that a rank computes, or a part of each.
  [[nodiscard]] int64_t images_of_rank() const { return accumulation_steps() * parallelism.micro_size; }
  /// The part of forward and backward in which a stage of the pipeline waits for others.
  [[nodiscard]] double bubble() const {
    return layout::pipeline_bubble(parallelism.pipeline_size, std::max<int64_t>(1, accumulation_steps()));
  }
  /// Copies of the state that are updated on their own; 0: none.
  [[nodiscard]] int64_t islands() const { return parallelism.sync_every > 0 ? mesh().degree(layout::Axis::island) : 0; }
  /// Bytes of a working weight.
  [[nodiscard]] int64_t weight_bytes() const { return mixed_precision ? 2 : 4; }
  /// Whether float32 master weights are kept beside the working weights.
  [[nodiscard]] bool has_master() const { return mixed_precision || parallelism.offload == layout::Offload::optimizer; }
  /// Whether gradients travel in 16 bits.
  [[nodiscard]] bool compression() const {
    return parallelism.gradient_compression != layout::GradientCompression::none;
  }
  /// Bytes of a gradient on its way between ranks.
  [[nodiscard]] int64_t wire_bytes() const { return compression() ? 2 : 4; }
};

}  // namespace ddpm::plan
