// The progress of `ddpm data`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "observe/progress_bar.h"

namespace ddpm::cli {

/// A bar whose number of units becomes known when the first one is done; its time counts from its construction.
class LazyBar {
 public:
  LazyBar(std::string label, bool speaks, std::string unit = "image");
  void update(int64_t done, int64_t total);

 private:
  std::string label_;
  std::string unit_;
  observe::ProgressStyle style_;
  double began_;
  std::optional<observe::ProgressBar> bar_;
};

}  // namespace ddpm::cli
