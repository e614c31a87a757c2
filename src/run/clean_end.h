// A command that SIGHUP, SIGINT or SIGTERM ends leaves nothing half written behind.
#pragma once

#include <csignal>
#include <thread>
#include <vector>

namespace ddpm::run {

/// While it lives, these signals remove what is unfinished (base/file_system.h) before they end the process, as they
/// still do; a second one ends it at once. Signals that are ignored or caught already are left alone. For commands that
/// do not train: a training has its own answers (run/fault.h, run/interruption.h). One object at a time.
class CleanEnd {
 public:
  CleanEnd();
  ~CleanEnd();
  CleanEnd(const CleanEnd&) = delete;
  CleanEnd& operator=(const CleanEnd&) = delete;

 private:
  std::vector<int> caught_;
  std::jthread thread_;
};

}  // namespace ddpm::run
