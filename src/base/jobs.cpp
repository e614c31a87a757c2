#include "base/jobs.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/signals.h"

namespace ddpm::base {

void run_jobs(std::size_t count, std::size_t threads, const std::function<void(std::size_t, std::size_t)>& job) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = std::numeric_limits<std::size_t>::max();
  const auto work = [&](std::size_t thread) {
    for (std::size_t number = next++; number < count; number = next++) {
      try {
        job(number, thread);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (number < failed) failure = std::current_exception();
        failed = std::min(failed, number);
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t thread = 1; thread < std::min(threads, count); ++thread) {
        others.push_back(start_without_signals([&work, thread] { work(thread); }));
      }
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): the threads that are there do all jobs
    }
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ddpm::base
