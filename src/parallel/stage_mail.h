// What the stages of a pipeline send each other one way, forward or backward, beside computation.
//
// Messages to a stage have a communicator and a queue of their own, on which stages send in the order of micro-batches
// what the receiver takes in that order: neither a thread that waits for a message nor a stream of the device keeps
// messages to other stages from going.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "parallel/transfer_queue.h"

namespace ddpm::parallel {

/// A tensor to a stage, or the memory for one from it: dense, in whatever order.
struct StageMessage {
  int64_t stage = 0;
  at::Tensor tensor;
};

class StageMail {
 public:
  /// `ranks`: those of the pipeline in the order of their stages. Collective.
  StageMail(comm::Communicator& ranks, at::Device device);

  /// Begins to send; the tensors are kept until they are received.
  void send(std::span<const StageMessage> messages, int tag);
  /// Begins to receive, after what was to be received before, and returns a number to wait for.
  int64_t receive(std::span<const StageMessage> messages, int tag);
  /// Blocks until receive() number `number` is done.
  void wait_for(int64_t number);
  /// Waits until all that was sent is received.
  void drain();
  /// Seconds that wait_for() and drain() blocked, since the last call.
  double take_exposed_seconds();
  /// From now on what travels is told to `trace`, which outlives this object; null ends that.
  void trace(base::Trace* trace);

 private:
  /// NCCL connects two ranks at their first message, and holds the host until each of them has met all others that it
  /// sends to or hears of in that call. In the midst of a step stages would wait for each other in a circle; here all
  /// do so in one order.
  void connect(int own, at::Device device);

  struct Way {
    std::unique_ptr<comm::Communicator> ranks;
    std::unique_ptr<TransferQueue> queue;
  };

  std::vector<Way> to_;  // each stage
  Way* own_;             // to this one
};

}  // namespace ddpm::parallel
