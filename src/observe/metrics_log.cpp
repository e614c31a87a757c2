#include "observe/metrics_log.h"

#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace ddpm::observe {

namespace {

/// Far above any run: a million logged steps take 400 MB.
constexpr uint64_t kMaxLogBytes = uint64_t{4} << 30U;

/// The step of one line, or nothing when the line is not a whole metrics object.
std::optional<int64_t> step_of(std::string_view line) {
  constexpr base::JsonLimits kLine{.max_bytes = 1U << 16U, .max_depth = 4};
  try {
    const base::Json object = base::parse_json(line, kLine);
    const auto step = object.find("step");
    if (step == object.end() || !step->is_number_integer()) return std::nullopt;
    return step->get<int64_t>();
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  base::OrderedJson object = {
      {"step", m.step},
      {"images_seen", m.images_seen},
      {"loss", m.loss},
      {"learning_rate", m.learning_rate},
      {"grad_norm", m.grad_norm},
      {"loss_scale", m.loss_scale},
      {"images_per_second", m.images_per_second},
      {"seconds_per_step", m.seconds_per_step},
      {"data_wait_fraction", m.data_wait_fraction},
      {"comm_wait_fraction", m.comm_wait_fraction},
      {"peak_memory_bytes", m.peak_memory_bytes},
      {"loss_quartiles", m.loss_quartiles},
  };
  if (m.validation_loss) object["validation_loss"] = *m.validation_loss;
  return object.dump();
}

MetricsLog::MetricsLog(base::FileSystem& files, base::Path path) : files_(files), path_(std::move(path)) {}

void MetricsLog::append(const StepMetrics& metrics) {
  if (!file_) {
    file_ = files_.open_append(path_);
    identity_ = base::identity_of(path_);
    // The name has to survive a crash as well as the lines.
    files_.sync_directory(path_.parent_path());
  }
  // One write per line: a reader that follows the file sees whole lines.
  file_->write(to_json_line(metrics) + "\n");
}

void MetricsLog::sync() {
  if (file_) file_->sync();
}

bool MetricsLog::displaced() const { return file_ && identity_ && base::is_displaced(path_, *identity_); }

void MetricsLog::reopen() { file_.reset(); }

void cut_back(base::FileSystem& files, const base::Path& path, int64_t step) {
  if (!files.exists(path)) return;
  const std::string text = files.read(path, kMaxLogBytes);
  std::string kept;
  kept.reserve(text.size());
  std::optional<int64_t> last;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // a half-written last line
    const auto line = std::string_view(text).substr(begin, end - begin);
    const auto line_step = step_of(line);
    if (line_step && *line_step <= step && (!last || *line_step > *last)) {
      kept.append(line).push_back('\n');
      last = line_step;
    }
    begin = end + 1;
  }
  if (kept != text) base::write_atomically(files, path, kept);
}

}  // namespace ddpm::observe
