#include "comm/start_deadline.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/host_name.h"
#include "comm/launch.h"

namespace ddpm::comm {
double StartDeadline::seconds(double otherwise) {
  const char* text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return otherwise;
  const std::string value = text;
  double seconds = 0.0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error == std::errc{} && end == value.data() + value.size() && seconds >= 0.0) return seconds;
  throw base::ConfigError("{} = {}: seconds are wanted, 0 for no limit", kVariable, value);
}

StartDeadline::StartDeadline(double otherwise) {
  const double limit = seconds(otherwise);
  // Asked here: MPI_Init may change the environment while the thread waits.
  const std::string rank = launched_rank(process_environment()).value_or("0");
  if (limit > 0.0) thread_ = std::thread([this, limit, rank] { wait(limit, rank); });
}

StartDeadline::~StartDeadline() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StartDeadline::wait(double seconds, const std::string& rank) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return started_; })) return;
  // The missing one may be rank 0: two lines are better than none, and than a thousand.
  if (rank == "0" || rank == "1") {
    std::fprintf(stderr,
                 "ddpm: error: rank %s on %s: the ranks have not met within %g s (%s): some have not come, or "
                 "cannot be reached from others\n",
                 rank.c_str(), base::host_name().c_str(), seconds, kVariable);
  }
  std::_Exit(static_cast<int>(base::ExitCode::communication));
}

}  // namespace ddpm::comm
