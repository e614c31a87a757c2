// Pieces of work that several threads share.
#pragma once

#include <cstddef>
#include <functional>

namespace ddpm::base {

/// Calls `job(number, thread)` for each number below `count`, on up to `threads` threads: the calling one has number 0,
/// the others live until all is done. They are fewer where the machine has no more threads to give. When jobs throw,
/// the others end early, and the exception of the lowest number that threw goes on.
void run_jobs(std::size_t count, std::size_t threads, const std::function<void(std::size_t, std::size_t)>& job);

}  // namespace ddpm::base
