// What a command has begun to write goes with it, whatever ends the command.
#pragma once

#include <csignal>
#include <thread>
#include <vector>

#include "base/file_system.h"
#include "run/runtime.h"

namespace ddpm::run {

/// While it lives, the unfinished file or folder of this rank is removed when the job is aborted, by the watchdog for
/// instance, and when SIGHUP, SIGINT or SIGTERM end this process, as they still do. Signals that are ignored or caught
/// already are left alone. One object at a time.
class Unfinished {
 public:
  /// Removes nothing where `path` is empty.
  Unfinished(const Runtime& runtime, const base::Path& path);
  /// The path is finished, or its owner removes it.
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  void await_signals(const std::stop_token& stop) const;

  const Runtime& runtime_;
  base::Path path_;
  std::vector<int> caught_;
  std::jthread thread_;
};

}  // namespace ddpm::run
