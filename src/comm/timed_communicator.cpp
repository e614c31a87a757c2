#include "comm/timed_communicator.h"

#include <utility>

#include "base/clock.h"

namespace ddpm::comm {
namespace {

class TimedWork final : public Work::Impl {
 public:
  TimedWork(Work work, double& seconds) : work_(std::move(work)), seconds_(seconds) {}

  bool test() override { return work_.test(); }
  void wait() override {
    const double begin = base::steady_seconds();
    work_.wait();
    seconds_ += base::steady_seconds() - begin;
  }

 private:
  Work work_;
  double& seconds_;
};

}  // namespace

TimedCommunicator::TimedCommunicator(std::unique_ptr<Communicator> timed)
    : Communicator(timed->rank(), timed->size()), timed_(std::move(timed)) {}

double TimedCommunicator::take_seconds() { return std::exchange(seconds_, 0.0); }

Work TimedCommunicator::timed(Work work) { return Work(std::make_unique<TimedWork>(std::move(work), seconds_)); }

Work TimedCommunicator::all_reduce(Buffer in_out, ReduceOp op) { return timed(timed_->all_reduce(in_out, op)); }

Work TimedCommunicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) {
  return timed(timed_->reduce_scatter(in, out, op));
}

Work TimedCommunicator::all_gather(ConstBuffer in, Buffer out) { return timed(timed_->all_gather(in, out)); }

Work TimedCommunicator::broadcast(Buffer in_out, int root) { return timed(timed_->broadcast(in_out, root)); }

Work TimedCommunicator::barrier() { return timed(timed_->barrier()); }

Work TimedCommunicator::send(ConstBuffer in, int to, int tag) { return timed(timed_->send(in, to, tag)); }

Work TimedCommunicator::receive(Buffer out, int from, int tag) { return timed(timed_->receive(out, from, tag)); }

Work TimedCommunicator::exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  return timed(timed_->exchange(out, in));
}

}  // namespace ddpm::comm
