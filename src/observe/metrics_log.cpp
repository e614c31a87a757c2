#include "observe/metrics_log.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace ddpm::observe {

namespace {

/// Calls `take(line, metrics)` for each whole line of `text` whose step is at most `last_step`, and later than those of
/// the lines taken before.
template <typename Take>
void for_each_step(std::string_view text, int64_t last_step, const Take& take) {
  std::optional<int64_t> last;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return;  // a half-written last line
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::optional<StepMetrics> metrics = parse_json_line(line);
    if (!metrics || metrics->step > last_step || (last && metrics->step <= *last)) continue;
    take(line, *metrics);
    last = metrics->step;
  }
}

}  // namespace

std::vector<StepMetrics> read_metrics(const base::FileSystem& files, const base::Path& path) {
  std::vector<StepMetrics> steps;
  if (!files.exists(path)) return steps;
  for_each_step(files.read(path, kMostLogBytes), std::numeric_limits<int64_t>::max(),
                [&](std::string_view /*line*/, const StepMetrics& metrics) { steps.push_back(metrics); });
  return steps;
}

void cut_back(base::FileSystem& files, const base::Path& path, int64_t step) {
  if (!files.exists(path)) return;
  const std::string text = files.read(path, kMostLogBytes);
  std::string kept;
  kept.reserve(text.size());
  for_each_step(text, step,
                [&](std::string_view line, const StepMetrics& /*metrics*/) { kept.append(line).push_back('\n'); });
  if (kept != text) base::write_atomically(files, path, kept);
}

}  // namespace ddpm::observe
