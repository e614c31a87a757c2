// The communicator of a process that is alone: every collective is done at once, and there is nobody to send to.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace ddpm::comm {

/// Rank 0 of 1, without MPI or NCCL. This class is for host memory; the one for device memory copies there.
class SoloCommunicator : public Communicator {
 public:
  SoloCommunicator() : Communicator(0, 1) {}

  Work all_reduce(Buffer in_out, ReduceOp op) override;
  Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) override;
  Work all_gather(ConstBuffer in, Buffer out) override;
  Work broadcast(Buffer in_out, int root) override;
  Work barrier() override;
  /// A bug of the caller's: throws base::InternalError.
  Work send(ConstBuffer in, int to, int tag) override;
  Work receive(Buffer out, int from, int tag) override;

  [[nodiscard]] std::unique_ptr<Communicator> split(int /*color*/, int /*key*/) override { return alone(); }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() override { return alone(); }
  [[nodiscard]] std::unique_ptr<Communicator> alone() override;

 protected:
  /// What the only rank puts in is what it gets out. `in` and `out` are of one size, and may be the same memory.
  virtual Work copy(ConstBuffer in, Buffer out);
};

}  // namespace ddpm::comm
