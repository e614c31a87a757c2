// Tells people about signals at once: what a stop will save, and what Ctrl-C loses in a training that does not stop for
// it, which then ends as SIGINT ends any process.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "base/log.h"

namespace ddpm::run {

/// "interrupted by SIGINT after step 37: the last checkpoint is that of step 30, 7 steps are lost; ..."
std::string interruption_text(int64_t step, int64_t checkpoint);

/// Waits for signals in a thread of its own: the main thread may be in a collective, for long. Leaves SIGINT alone
/// where it is ignored or caught already (nohup, fault.stop_signals). A second SIGINT ends the process at once. One
/// that comes while the object ends is told and ends the process, too. One object at a time.
class Interruption {
 public:
  explicit Interruption(const base::Logger& log);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// The last step that is complete, and the step of the newest checkpoint that is valid (-1: none).
  void set(int64_t step, int64_t checkpoint) {
    step_ = step;
    checkpoint_ = checkpoint;
  }

 private:
  void wait(const std::stop_token& stop) const;
  void tell_and_die() const;

  const base::Logger& log_;
  std::atomic<int64_t> step_ = 0;
  std::atomic<int64_t> checkpoint_ = -1;
  bool active_ = false;
  std::jthread thread_;
};

}  // namespace ddpm::run
