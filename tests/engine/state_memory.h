// The model state of one rank in bytes, twice: as counted, and as planned.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "engine/sharded_training.h"

namespace ddpm::engine::test {

struct StateBytes {
  int64_t counted = 0;  ///< what host tensors hold after a step, by test::CountingAllocator
  int64_t planned = 0;  ///< plan::Memory::model_state() of the same arrangement
};

/// Trains one step. Collective; each rank has its own count.
StateBytes state_bytes(const TrainingCase& chosen, comm::Communicator& comm);

}  // namespace ddpm::engine::test
