// Work that may hang, for a process that is about to end.
#pragma once

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace ddpm::base {

/// Does `work`, which must not throw, on a thread of its own, and returns when it is done or after `patience`: it goes
/// on then for as long as the process lives.
template <typename Work>
void work_for_at_most(std::chrono::seconds patience, Work work) {
  std::packaged_task<void()> task(std::move(work));
  const std::future<void> done = task.get_future();
  std::thread(std::move(task)).detach();
  done.wait_for(patience);
}

}  // namespace ddpm::base
