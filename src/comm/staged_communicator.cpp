#include "comm/staged_communicator.h"

#include <deque>
#include <utility>
#include <vector>

namespace ddpm::comm {
namespace {

/// The host's copies of an operation's buffers, at addresses that stay.
class Copies {
 public:
  explicit Copies(std::shared_ptr<DeviceMemory> memory) : memory_(std::move(memory)) { memory_->finish(); }

  /// What is on the device now.
  Buffer of(const ConstBuffer& buffer) {
    const Buffer copy = add(buffer.count, buffer.dtype);
    memory_->read(buffer.data, bytes_.back());
    return copy;
  }
  /// What land() takes to the device. It holds anything until then.
  Buffer into(const Buffer& buffer) {
    const Buffer copy = add(buffer.count, buffer.dtype);
    arriving_.emplace_back(&bytes_.back(), buffer.data);
    return copy;
  }
  /// Both.
  Buffer of_and_into(const Buffer& buffer) {
    const Buffer copy = into(buffer);
    memory_->read(buffer.data, bytes_.back());
    return copy;
  }
  void land() {
    for (const auto& [bytes, device] : std::exchange(arriving_, {})) memory_->write(*bytes, device);
  }

 private:
  Buffer add(int64_t count, base::DType dtype) {
    bytes_.emplace_back(static_cast<std::size_t>(count) * base::size_of(dtype));
    return {bytes_.back().data(), count, dtype};
  }

  std::shared_ptr<DeviceMemory> memory_;
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<std::pair<const std::vector<std::byte>*, void*>> arriving_;
};

class StagedWork final : public Work::Impl {
 public:
  StagedWork(Copies copies, Work work) : copies_(std::move(copies)), work_(std::move(work)) {}
  bool test() override {
    if (!work_.test()) return false;
    copies_.land();
    return true;
  }
  void wait() override {
    work_.wait();
    copies_.land();
  }

 private:
  Copies copies_;
  Work work_;
};

Work staged(Copies copies, Work work) { return Work(std::make_unique<StagedWork>(std::move(copies), std::move(work))); }

}  // namespace

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> host, std::shared_ptr<DeviceMemory> memory)
    : Communicator(host->rank(), host->size()), host_(std::move(host)), memory_(std::move(memory)) {}

Work StagedCommunicator::all_reduce(Buffer in_out, ReduceOp op) {
  Copies copies(memory_);
  Work work = host_->all_reduce(copies.of_and_into(in_out), op);
  return staged(std::move(copies), std::move(work));
}

Work StagedCommunicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) {
  Copies copies(memory_);
  const ConstBuffer parts = copies.of(in);
  Work work = host_->reduce_scatter(parts, copies.into(out), op);
  return staged(std::move(copies), std::move(work));
}

Work StagedCommunicator::all_gather(ConstBuffer in, Buffer out) {
  Copies copies(memory_);
  const ConstBuffer part = copies.of(in);
  Work work = host_->all_gather(part, copies.into(out));
  return staged(std::move(copies), std::move(work));
}

Work StagedCommunicator::broadcast(Buffer in_out, int root) {
  Copies copies(memory_);
  Work work = host_->broadcast(rank() == root ? copies.of(in_out) : copies.into(in_out), root);
  return staged(std::move(copies), std::move(work));
}

Work StagedCommunicator::barrier() {
  Copies copies(memory_);
  return staged(std::move(copies), host_->barrier());
}

Work StagedCommunicator::send(ConstBuffer in, int to, int tag) {
  Copies copies(memory_);
  Work work = host_->send(copies.of(in), to, tag);
  return staged(std::move(copies), std::move(work));
}

Work StagedCommunicator::receive(Buffer out, int from, int tag) {
  Copies copies(memory_);
  Work work = host_->receive(copies.into(out), from, tag);
  return staged(std::move(copies), std::move(work));
}

Work StagedCommunicator::exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  Copies copies(memory_);
  std::vector<Outgoing> sent;
  std::vector<Incoming> received;
  for (const Outgoing& message : out) sent.push_back({copies.of(message.buffer), message.to, message.tag});
  for (const Incoming& message : in) received.push_back({copies.into(message.buffer), message.from, message.tag});
  Work work = host_->exchange(sent, received);
  return staged(std::move(copies), std::move(work));
}

std::unique_ptr<Communicator> StagedCommunicator::split(int color, int key) {
  return std::make_unique<StagedCommunicator>(host_->split(color, key), memory_);
}

std::unique_ptr<Communicator> StagedCommunicator::duplicate() {
  return std::make_unique<StagedCommunicator>(host_->duplicate(), memory_);
}

}  // namespace ddpm::comm
