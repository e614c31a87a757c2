#include <algorithm>
#include <limits>
#include <utility>

#include "base/base64.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/parse_number.h"
#include "checkpoint/folders.h"
#include "checkpoint/lock_lease.h"
#include "checkpoint/run_files.h"
#include "checkpoint/run_lock.h"
#include "config/resolve.h"
#include "config/value.h"
#include "observe/line_file.h"
#include "report/run_record.h"

namespace ddpm::report {
namespace {

/// Damaged lines of one file that are named one by one.
constexpr int64_t kMostNamed = 5;

/// Calls `take(line, number)` for each whole line of `text`. What follows the last line's end is being written now.
template <typename Take>
void for_each_line(std::string_view text, const Take& take) {
  int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return;
    take(text.substr(begin, end - begin), ++number);
    begin = end + 1;
  }
}

/// The lines of a file that cannot be read: the first ones by their number and reason, the others counted.
class DamagedLines {
 public:
  DamagedLines(std::string file, std::vector<std::string>& damage) : file_(std::move(file)), damage_(damage) {}
  void add(int64_t line, std::string_view reason) {
    if (++count_ <= kMostNamed) damage_.push_back(fmt::format("{}, line {}: {}", file_, line, reason));
  }
  void finish() {
    if (count_ > kMostNamed)
      damage_.push_back(fmt::format("{}: {} more", file_, base::counted(count_ - kMostNamed, "damaged line")));
  }

 private:
  std::string file_;
  std::vector<std::string>& damage_;
  int64_t count_ = 0;
};

/// Seconds since 1970, by the clock that stamps the folder's files.
double written_at(const base::Path& file) { return static_cast<double>(base::look_at(file).stamp.seconds); }

/// One report's reading of one run.
class Reader {
 public:
  Reader(const base::FileSystem& files, base::Path path) : files_(files), path_(std::move(path)) {
    const base::Path plain = base::plain_path(path_);
    record_.name =
        (plain == "." ? std::filesystem::absolute(path_).lexically_normal().parent_path().filename() : plain).string();
  }
  RunRecord read(const PictureLimits& limits);

 private:
  void expect_run() const;
  void read_settings();
  void read_metrics();
  void read_usage();
  void read_lock();
  void read_checkpoints();
  void read_evaluations();
  void read_pictures(const PictureLimits& limits);
  void read_picture(int64_t step, const base::Path& file, const PictureLimits& limits);

  [[nodiscard]] bool exists(const char* name) const { return files_.exists(path_ / name); }
  [[nodiscard]] std::vector<std::string> names_in(const char* folder) const {
    return exists(folder) ? files_.list(path_ / folder) : std::vector<std::string>();
  }
  void missing(std::string_view file, std::string_view what) {
    record_.missing.push_back(fmt::format("{}: {} is not there, so {}", record_.name, file, what));
  }
  /// Runs `work`; what it throws is a damage, not the end of the report.
  template <typename Work>
  void try_to(const Work& work) {
    try {
      work();
    } catch (const base::AccessError&) {
      throw;
    } catch (const base::Error& error) {
      record_.damage.emplace_back(error.what());
    }
  }

  const base::FileSystem& files_;
  base::Path path_;
  RunRecord record_;
};

RunRecord Reader::read(const PictureLimits& limits) {
  expect_run();
  try_to([this] { read_settings(); });
  try_to([this] { read_metrics(); });
  try_to([this] { read_usage(); });
  try_to([this] { read_lock(); });
  read_checkpoints();
  try_to([this] { read_evaluations(); });
  try_to([&] { read_pictures(limits); });
  record_.has_model = exists(checkpoint::kModelFolder);
  return std::move(record_);
}

void Reader::expect_run() const {
  const auto names = {checkpoint::kConfigName, checkpoint::kMetricsName, checkpoint::kCheckpointsName};
  if (std::ranges::any_of(names, [this](const char* name) { return exists(name); })) return;
  throw base::OutputError("{}: is not a run folder: it holds neither {}, nor {}, nor {}", record_.name,
                          checkpoint::kConfigName, checkpoint::kMetricsName, checkpoint::kCheckpointsName);
}

void Reader::read_settings() {
  if (!exists(checkpoint::kConfigName)) {
    return missing(checkpoint::kConfigName, "its configuration is not known");
  }
  for (const auto& [section, keys] : config::read_toml(path_ / checkpoint::kConfigName)) {
    const auto* table = std::get_if<config::Table>(&keys.data);
    if (table == nullptr) continue;
    for (const auto& [key, value] : *table)
      record_.settings.push_back({fmt::format("{}.{}", section, key), config::to_text(value)});
  }
}

void Reader::read_metrics() {
  if (!exists(checkpoint::kMetricsName)) return missing(checkpoint::kMetricsName, "there are no curves");
  const base::Path path = path_ / checkpoint::kMetricsName;
  DamagedLines damaged(path.string(), record_.damage);
  for_each_line(files_.read(path, observe::kMostLogBytes), [&](std::string_view line, int64_t number) {
    auto metrics = observe::parse_json_line(line);
    if (!metrics) return damaged.add(number, "is not the metrics of a step");
    if (metrics->step <= record_.last_step()) {
      return damaged.add(number, fmt::format("step {} follows step {}", metrics->step, record_.last_step()));
    }
    record_.metrics.push_back(std::move(*metrics));
  });
  record_.logged = written_at(path);
  damaged.finish();
}

void Reader::read_usage() {
  if (!exists(checkpoint::kUsageName)) return missing(checkpoint::kUsageName, "what it used is not known");
  const base::Path path = path_ / checkpoint::kUsageName;
  DamagedLines damaged(path.string(), record_.damage);
  for_each_line(files_.read(path, observe::kMostLogBytes), [&](std::string_view text, int64_t number) {
    try {
      observe::UsageLine line = observe::parse_usage_line(text, "");
      const bool another = record_.usage.empty() || record_.usage.back().start != line.start;
      if (another) record_.usage.emplace_back();
      record_.usage.back() = std::move(line);
    } catch (const base::OutputError& error) {
      damaged.add(number, fmt::format("cannot be read as usage{}", error.what()));
    }
  });
  damaged.finish();
}

/// A run that ends takes its lock away at any moment, and one that begins has made its lock before there is text in it.
void Reader::read_lock() {
  const base::Path path = path_ / checkpoint::kLockName;
  const std::optional<std::string> text = checkpoint::read_lock(files_, path);
  const base::FileFacts facts = base::look_at(path);
  if (!text || facts.kind == base::FileKind::absent) return;
  const std::optional<checkpoint::LockOwner> owner = checkpoint::owner_in(*text);
  record_.lock = {owner ? checkpoint::described(*owner) : "a run that begins", static_cast<double>(facts.stamp.seconds),
                  owner && checkpoint::is_gone(*owner, checkpoint::LockOwner::self())};
}

void Reader::read_checkpoints() {
  const base::Path folder = path_ / checkpoint::kCheckpointsName;
  for (const std::string& name : checkpoint::candidate_folders(files_, folder)) {
    CheckpointFacts facts{.step = checkpoint::step_of_candidate(name).value_or(0), .problem = {}};
    try {
      const checkpoint::Manifest manifest = checkpoint::verify_sizes(files_, folder / name);
      facts.bytes = checkpoint::total_bytes(manifest);
      facts.written = written_at(folder / name / checkpoint::kManifestName);
    } catch (const checkpoint::NewerFormatError& error) {
      facts.problem = error.what();
      facts.newer = true;
    } catch (const base::Error& error) {  // retention may remove it at this moment
      if (!files_.exists(folder / name)) continue;
      facts.problem = error.what();
    }
    record_.checkpoints.push_back(std::move(facts));
  }
  record_.saved_before = files_.exists(path_ / checkpoint::kLatestName);
  if (record_.checkpoints.empty()) missing(checkpoint::kCheckpointsName, "nothing of it would outlive a kill yet");
}

void Reader::read_evaluations() {
  for (const std::string& name : names_in(checkpoint::kEvaluationFolder)) {
    if (!name.ends_with(".json") || name.starts_with(".")) continue;
    const base::Path file = path_ / checkpoint::kEvaluationFolder / name;
    try_to([&] {
      record_.evaluations.push_back(parse_evaluation(files_.read(file, kMostEvaluationBytes), file.string()));
      record_.evaluations.back().file = name;
      record_.evaluations.back().written = written_at(file);
    });
  }
  if (record_.evaluations.empty()) {
    missing(checkpoint::kEvaluationFolder, "nothing is said of its samples (ddpm eval with --output writes there)");
  }
}

void Reader::read_pictures(const PictureLimits& limits) {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string& name : names_in(checkpoint::kSamplesFolder)) {
    const auto step =
        name.ends_with(".png") ? checkpoint::parse_step_folder(name.substr(0, name.size() - 4)) : std::nullopt;
    if (step) found.emplace_back(*step, name);
  }
  std::ranges::sort(found);
  if (found.empty()) {
    missing(checkpoint::kSamplesFolder, "there are no pictures (sample.every_steps has training make them)");
  }
  const std::size_t count = std::min(static_cast<std::size_t>(limits.count), found.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = count < 2 ? found.size() - 1 : i * (found.size() - 1) / (count - 1);
    try_to([&] { read_picture(found[at].first, path_ / checkpoint::kSamplesFolder / found[at].second, limits); });
  }
  record_.pictures_left_out = std::ssize(found) - std::ssize(record_.pictures);
}

void Reader::read_picture(int64_t step, const base::Path& file, const PictureLimits& limits) {
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  const uint64_t size = files_.file_size(file);
  if (size > limits.bytes) {
    record_.missing.push_back(
        fmt::format("{} has {} bytes, more than the {} that a page takes", file.string(), size, limits.bytes));
    return;
  }
  const std::string bytes = files_.read(file, limits.bytes);
  if (!bytes.starts_with(kSignature)) throw base::OutputError("{}: is not a PNG file", file.string());
  record_.pictures.push_back({step, "data:image/png;base64," + base::to_base64(std::as_bytes(std::span(bytes)))});
}

}  // namespace

RunRecord read_run(const base::FileSystem& files, const base::Path& path, const PictureLimits& limits) {
  return Reader(files, path).read(limits);
}

std::optional<std::string> RunRecord::setting(std::string_view path) const {
  const auto found = std::ranges::find(settings, path, &Setting::path);
  return found == settings.end() ? std::nullopt : std::optional(found->value);
}

std::optional<int64_t> RunRecord::integer_setting(std::string_view path) const {
  return base::parse_number<int64_t>(setting(path).value_or(""));
}

std::optional<int64_t> RunRecord::total_steps() const {
  if (!usage.empty() && usage.back().total > 0) return usage.back().total;
  return integer_setting("train.steps");
}

}  // namespace ddpm::report
