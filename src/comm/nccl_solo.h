// A rank that is alone, over device memory: it needs no NCCL communicator, which would take memory of the device and
// time at the start. Compiled into libddpm_cuda.so only.
#pragma once

#include <memory>

#include "comm/solo_communicator.h"

namespace ddpm::comm {

/// Copies are put on the calling thread's current stream of GPU `device`.
class NcclSolo final : public SoloCommunicator {
 public:
  explicit NcclSolo(int device) : device_(device) {}

  [[nodiscard]] std::unique_ptr<Communicator> alone() override { return std::make_unique<NcclSolo>(device_); }

 protected:
  Work copy(ConstBuffer in, Buffer out) override;

 private:
  int device_;
};

}  // namespace ddpm::comm
