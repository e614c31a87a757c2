#include "comm/communicator.h"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/pulse.h"

namespace ddpm::comm {
namespace {

class ManyWorks final : public Work::Impl {
 public:
  void add(Work work) { works_.push_back(std::move(work)); }
  bool test() override {
    bool done = true;
    for (Work& work : works_) done = work.test() && done;
    return done;
  }
  void wait() override {
    for (Work& work : works_) work.wait();
  }

 private:
  std::vector<Work> works_;
};

/// Keeps an operation that failed: the program is about to end, and until then other ranks may write to its buffers.
void keep_for_ever(std::unique_ptr<Work::Impl> failed) {
  static std::mutex mutex;
  static auto* const kFailed = new std::vector<std::unique_ptr<Work::Impl>>;  // never destroyed
  const std::lock_guard lock(mutex);
  kFailed->push_back(std::move(failed));
}

}  // namespace

Work::~Work() {
  // Waiting here could hang while another error is being reported.
  if (impl_) base::Logger(0, 1).error("a collective was dropped before it was done; its buffers may still be in use");
}

Work& Work::operator=(Work&& other) noexcept {
  Work dropped(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

bool Work::test() {
  if (impl_ && impl_->test()) impl_.reset();
  return !impl_;
}

void Work::wait() {
  // Taken out first: after a failure there is nothing left to wait for.
  auto impl = std::move(impl_);
  if (!impl) return;
  const base::Waiting waiting;
  try {
    impl->wait();
  } catch (...) {
    keep_for_ever(std::move(impl));
    throw;
  }
  base::pulse();
}

Work Communicator::exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  auto works = std::make_unique<ManyWorks>();
  for (const Incoming& message : in) works->add(receive(message.buffer, message.from, message.tag));
  for (const Outgoing& message : out) works->add(send(message.buffer, message.to, message.tag));
  return Work(std::move(works));
}

}  // namespace ddpm::comm
