// The progress of `ddpm data`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "observe/progress_bar.h"

namespace ddpm::cli {

/// A bar of images whose number is known with the first that is done; the work begins now.
class LazyBar {
 public:
  LazyBar(std::string label, bool speaks);
  void update(int64_t done, int64_t total);

 private:
  std::string label_;
  observe::ProgressStyle style_;
  double began_;
  std::optional<observe::ProgressBar> bar_;
};

}  // namespace ddpm::cli
