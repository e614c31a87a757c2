// Progress of long work on stderr: a bar that redraws itself on a terminal, a plain line now and then elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "base/clock.h"
#include "observe/logging_config.h"

namespace ddpm::observe {

enum class ProgressStyle : uint8_t { off, lines, bar };

/// The style for `setting`. A rank that does not speak shows nothing; `automatic` is a bar when stderr is a terminal,
/// otherwise lines.
ProgressStyle progress_style(ProgressChoice setting, bool speaks, bool terminal);

struct ProgressBarOptions {
  std::string label;                           ///< "train", "sample", "data create"
  std::string unit = "step";                   ///< what is counted
  int64_t first = 0;                           ///< already done before this process began
  int64_t total = 0;                           ///< all there is to do
  int64_t images_per_unit = 1;                 ///< for images/s; 0 shows units/s instead
  std::optional<double> began = std::nullopt;  ///< when the work began, by the bar's clock; absent: now
  double line_every_s = 30.0;                  ///< plain lines
  double draw_every_s = 0.2;                   ///< bar
};

class ProgressBar {
 public:
  /// `now` gives seconds that never go backwards.
  ProgressBar(ProgressStyle style, ProgressBarOptions options, base::TimeSource now = base::steady_seconds,
              std::FILE* out = stderr);
  /// Ends a bar's line, so that what is printed next stands on its own.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` of `total` units are complete. Cheap: draws only when the time for it has come, or at the end. Messages of
  /// base::Logger take a bar off the terminal's line; the next update draws it again.
  void update(int64_t done, std::optional<double> loss = std::nullopt);

 private:
  [[nodiscard]] std::string status(int64_t done, std::optional<double> loss, double now) const;
  void draw(int64_t done, const std::string& status);

  ProgressStyle style_;
  ProgressBarOptions options_;
  base::TimeSource now_;
  std::FILE* out_;
  double began_;
  double last_drawn_;
};

/// 59 -> "59s", 61 -> "1m01s", 3700 -> "1h01m", 90000 -> "1d01h".
std::string format_duration(double seconds);

}  // namespace ddpm::observe
