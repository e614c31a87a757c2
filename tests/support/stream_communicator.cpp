#include <functional>
#include <utility>
#include <vector>

#include "support/fake_device.h"

namespace ddpm::test {
namespace {

using Range = StreamOrder::Range;

/// The point of a stream at which a collective is done.
class FakeWork final : public comm::Work::Impl {
 public:
  FakeWork(StreamOrder::Mark mark, comm::Work host) : mark_(mark), host_(std::move(host)) {}
  ~FakeWork() override { host_.wait(); }
  FakeWork(const FakeWork&) = delete;
  FakeWork& operator=(const FakeWork&) = delete;
  bool test() override { return host_.test() && StreamOrder::instance().host_knows(mark_, asked_++); }
  /// What the current stream is given next computes at once, so that the values must be there.
  void wait() override {
    host_.wait();
    StreamOrder::instance().follow(current_stream(), mark_);
  }

 private:
  StreamOrder::Mark mark_;
  comm::Work host_;
  int64_t asked_ = 0;
};

Range range_of(const comm::ConstBuffer& buffer, bool writes) {
  return {buffer.data, static_cast<std::size_t>(buffer.count) * base::size_of(buffer.dtype), writes};
}

class StreamCommunicator final : public comm::Communicator {
 public:
  explicit StreamCommunicator(std::unique_ptr<comm::Communicator> host)
      : Communicator(host->rank(), host->size()), host_(std::move(host)), stream_(make_stream()) {}

  comm::Work all_reduce(comm::Buffer in_out, comm::ReduceOp op) override {
    return start("all_reduce", {range_of(in_out, true)}, [&] { return host_->all_reduce(in_out, op); });
  }
  comm::Work reduce_scatter(comm::ConstBuffer in, comm::Buffer out, comm::ReduceOp op) override {
    return start("reduce_scatter", {range_of(in, false), range_of(out, true)},
                 [&] { return host_->reduce_scatter(in, out, op); });
  }
  comm::Work all_gather(comm::ConstBuffer in, comm::Buffer out) override {
    return start("all_gather", {range_of(in, false), range_of(out, true)}, [&] { return host_->all_gather(in, out); });
  }
  comm::Work broadcast(comm::Buffer in_out, int root) override {
    return start("broadcast", {range_of(in_out, true)}, [&] { return host_->broadcast(in_out, root); });
  }
  comm::Work barrier() override {
    return start("barrier", {}, [&] { return host_->barrier(); });
  }
  comm::Work send(comm::ConstBuffer in, int to, int tag) override {
    return start("send", {range_of(in, false)}, [&] { return host_->send(in, to, tag); });
  }
  comm::Work receive(comm::Buffer out, int from, int tag) override {
    return start("receive", {range_of(out, true)}, [&] { return host_->receive(out, from, tag); });
  }
  comm::Work exchange(std::span<const comm::Outgoing> out, std::span<const comm::Incoming> in) override {
    std::vector<Range> ranges;
    for (const comm::Outgoing& message : out) ranges.push_back(range_of(message.buffer, false));
    for (const comm::Incoming& message : in) ranges.push_back(range_of(message.buffer, true));
    return start("exchange", ranges, [&] { return host_->exchange(out, in); });
  }
  std::unique_ptr<comm::Communicator> split(int color, int key) override {
    return std::make_unique<StreamCommunicator>(host_->split(color, key));
  }
  std::unique_ptr<comm::Communicator> duplicate() override {
    return std::make_unique<StreamCommunicator>(host_->duplicate());
  }
  std::unique_ptr<comm::Communicator> alone() override { return std::make_unique<StreamCommunicator>(host_->alone()); }

 private:
  comm::Work start(const char* what, std::vector<Range> ranges, const std::function<comm::Work()>& collective) {
    StreamOrder::instance().follow(stream_, StreamOrder::instance().mark(current_stream()));
    StreamOrder::instance().work(stream_, what, ranges);
    comm::Work host = collective();
    return comm::Work(std::make_unique<FakeWork>(StreamOrder::instance().mark(stream_), std::move(host)));
  }

  std::unique_ptr<comm::Communicator> host_;
  std::size_t stream_;
};

}  // namespace

std::unique_ptr<comm::Communicator> on_fake_device(comm::Communicator& host) {
  return std::make_unique<StreamCommunicator>(host.duplicate());
}

}  // namespace ddpm::test
