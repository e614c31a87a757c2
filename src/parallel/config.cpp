#include "parallel/config.h"

namespace ddpm::parallel {

void describe(config::Section& section, ParallelConfig& c) {
  section
      .key("activation_checkpointing", c.activation_checkpointing,
           "What is computed again in the backward pass instead of kept in memory: nothing, the attention blocks, or "
           "every block. Gradients have the same bits.",
           {.choices = {"none", "blocks", "attention"}})
      .key("bucket_mib", c.bucket_mib, "Gradients are summed over the ranks in buckets of about this size, in MiB.",
           {.min = 0.0, .above_min = true});
}

}  // namespace ddpm::parallel
