#include "engine/state_memory.h"

#include "plan/memory.h"
#include "plan/model_sizes.h"

namespace ddpm::engine::test {

StateBytes state_bytes(const TrainingCase& chosen, comm::Communicator& comm) {
  const int64_t side = chosen.model.sample_size.front();
  const bool mixed = chosen.mixed_precision != "no";
  const plan::ModelSizes sizes =
      plan::model_sizes(chosen.model, {side, side, chosen.model.in_channels, base::DType::u8}, chosen.micro_size, mixed,
                        chosen.parallel.activation_checkpointing);
  const plan::Arrangement arrangement{.ranks_per_node = comm.size(),
                                      .parallelism = parallelism_of(chosen),
                                      .mixed_precision = mixed,
                                      .overlap = chosen.parallel.overlap,
                                      .bucket_mib = chosen.parallel.bucket_mib};
  return {.counted = counted_state_bytes(chosen, comm, /*steps=*/1),
          .planned = plan::memory_of(sizes, arrangement, /*process_bytes=*/0).model_state()};
}

}  // namespace ddpm::engine::test
