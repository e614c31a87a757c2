#include "parallel/transfer_queue.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/pulse.h"

namespace ddpm::parallel {
namespace {

/// Waits without holding a core: MPI is asked again after pauses that grow while nothing happens.
void poll(comm::Work& work, const std::stop_token& stop) {
  constexpr int kEager = 200;  // asked without a pause: small messages are done by then
  constexpr std::chrono::microseconds kFirst{20};
  constexpr std::chrono::microseconds kLongest{200};
  auto pause = kFirst;
  for (int asked = 0; !work.test(); ++asked) {
    if (stop.stop_requested()) throw base::CommunicationError("a transfer was given up: the program ends");
    if (asked < kEager) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongest);
  }
}

/// Keeps the memory that an abandoned collective may still read or write: the process is about to end, and an error on
/// its way would otherwise free it.
void keep_for_ever(comm::Work work, const Transfer& transfer) {
  static_cast<void>(new std::pair<comm::Work, Transfer>(std::move(work), transfer));
}

/// Starts and waits for every stage from `first` on, then finishes.
template <typename Wait>
void run(const Transfer& transfer, std::size_t first, const Wait& wait) {
  for (std::size_t i = first; i < transfer.stages.size(); ++i) {
    comm::Work work = transfer.stages[i]();
    try {
      wait(work);
    } catch (...) {
      keep_for_ever(std::move(work), transfer);
      throw;
    }
  }
  if (transfer.finish) transfer.finish();
}

void wait_blocking(comm::Work& work) { work.wait(); }

/// A span of `trace` from the beginning of the first stage until all is finished.
void show(Transfer& transfer, base::Trace* trace) {
  auto began = std::make_shared<double>(0.0);
  transfer.stages.front() = [began, start = std::move(transfer.stages.front())] {
    *began = base::steady_seconds();
    return start();
  };
  transfer.finish = [trace, began, name = std::move(transfer.name), finish = std::move(transfer.finish)] {
    if (finish) finish();
    trace->add({.name = name, .track = base::Trace::Track::transfers, .begin = *began, .end = base::steady_seconds()});
  };
}

}  // namespace

TransferQueue::TransferQueue(Mode mode) : mode_(mode) {
  if (mode_ == Mode::thread) {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
}

TransferQueue::~TransferQueue() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  for (; !started_.empty(); started_.pop_front(), queue_.pop_front()) {
    keep_for_ever(std::move(started_.front()), queue_.front());
  }
}

int64_t TransferQueue::push(Transfer transfer) {
  if (base::records(trace_) && !transfer.name.empty()) show(transfer, trace_);
  if (mode_ == Mode::blocking) {
    const auto start = base::Clock::now();
    run(transfer, 0, wait_blocking);
    exposed_seconds_ += base::seconds_since(start);
    completed_ = ++pushed_;
    return pushed_ - 1;
  }
  if (mode_ == Mode::stream) {
    started_.push_back(transfer.stages.front()());
    queue_.push_back(std::move(transfer));
    return pushed_++;
  }
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(transfer));
  changed_.notify_all();
  return pushed_++;
}

void TransferQueue::wait_until_pending(int64_t pending) { wait_until_complete(pushed_ - pending); }

void TransferQueue::wait_for(int64_t number) { wait_until_complete(number + 1); }

void TransferQueue::wait_until_complete(int64_t count) {
  if (mode_ == Mode::stream) return complete_started(count);
  std::unique_lock lock(mutex_);
  if (completed_ < count && !failure_) {
    const base::Waiting waiting;
    const auto start = base::Clock::now();
    changed_.wait(lock, [&] { return completed_ >= count || failure_; });
    exposed_seconds_ += base::seconds_since(start);
    base::pulse();
  }
  if (failure_) std::rethrow_exception(failure_);
}

void TransferQueue::forget_complete() {
  while (!started_.empty() && started_.front().test()) complete_started(completed_ + 1);
}

void TransferQueue::discard() {
  for (comm::Work& work : started_) work.forget();
  started_.clear();
  queue_.clear();
  completed_ = pushed_;
}

double TransferQueue::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

void TransferQueue::complete_started(int64_t count) {
  for (; completed_ < count; ++completed_) {
    started_.front().wait();
    started_.pop_front();
    run(queue_.front(), 1, wait_blocking);
    queue_.pop_front();
  }
}

void TransferQueue::serve(const std::stop_token& stop) {
  while (true) {
    Transfer transfer;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !queue_.empty(); })) return;
      transfer = std::move(queue_.front());
      queue_.pop_front();
    }
    std::exception_ptr failure;
    try {
      run(transfer, 0, [&stop](comm::Work& work) { poll(work, stop); });
    } catch (...) {
      failure = std::current_exception();
    }
    transfer = {};  // its memory is free before a waiting caller continues
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    ++completed_;
    changed_.notify_all();
    if (failure) return;
  }
}

}  // namespace ddpm::parallel
