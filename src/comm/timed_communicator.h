// Another communicator's operations, and how long their results were waited for.
#pragma once

#include <memory>
#include <span>

#include "comm/communicator.h"

namespace ddpm::comm {

/// Split off or duplicated, it is not timed any more. On device memory a wait does not keep the host, and counts as
/// nothing.
class TimedCommunicator final : public Communicator {
 public:
  explicit TimedCommunicator(std::unique_ptr<Communicator> timed);

  /// Seconds of all waits since the last call, which no operation may be under way at.
  double take_seconds();

  Work all_reduce(Buffer in_out, ReduceOp op) override;
  Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) override;
  Work all_gather(ConstBuffer in, Buffer out) override;
  Work broadcast(Buffer in_out, int root) override;
  Work barrier() override;
  Work send(ConstBuffer in, int to, int tag) override;
  Work receive(Buffer out, int from, int tag) override;
  Work exchange(std::span<const Outgoing> out, std::span<const Incoming> in) override;

  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override { return timed_->split(color, key); }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() override { return timed_->duplicate(); }
  [[nodiscard]] std::unique_ptr<Communicator> alone() override { return timed_->alone(); }

 private:
  [[nodiscard]] Work timed(Work work);

  std::unique_ptr<Communicator> timed_;
  double seconds_ = 0.0;
};

}  // namespace ddpm::comm
