// Collectives on the memory of a device by way of host memory: for ranks that share a GPU, which NCCL refuses.
//
// Each operation waits until the device has done what the current stream was given, copies what goes out to the host,
// and hands it to a communicator over host memory. A wait copies what has come in, and returns when the device has it.
// So the calling thread waits where a device's stream otherwise would, and nothing of it can be recorded in a graph.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "comm/communicator.h"

namespace ddpm::comm {

/// The memory of a device, as far as it is copied to the host and back.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// Returns when the calling thread's current stream has done all that it was given.
  virtual void finish() = 0;
  /// Fills `host` with the bytes at `device`. What may still write them has been waited for.
  virtual void read(const void* device, std::span<std::byte> host) = 0;
  /// Puts the bytes of `host` at `device`, where they are when it returns.
  virtual void write(std::span<const std::byte> host, void* device) = 0;
  /// A communicator of this rank only, over this memory.
  [[nodiscard]] virtual std::unique_ptr<Communicator> alone() = 0;
};

class StagedCommunicator final : public Communicator {
 public:
  /// The ranks of `host`, whose buffers are in `memory`.
  StagedCommunicator(std::unique_ptr<Communicator> host, std::shared_ptr<DeviceMemory> memory);

  Work all_reduce(Buffer in_out, ReduceOp op) override;
  Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) override;
  Work all_gather(ConstBuffer in, Buffer out) override;
  Work broadcast(Buffer in_out, int root) override;
  Work barrier() override;
  Work send(ConstBuffer in, int to, int tag) override;
  Work receive(Buffer out, int from, int tag) override;
  Work exchange(std::span<const Outgoing> out, std::span<const Incoming> in) override;

  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override;
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() override;
  [[nodiscard]] std::unique_ptr<Communicator> alone() override { return memory_->alone(); }

 private:
  std::unique_ptr<Communicator> host_;
  std::shared_ptr<DeviceMemory> memory_;
};

}  // namespace ddpm::comm
