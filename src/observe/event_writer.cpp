#include "observe/event_writer.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ddpm::observe {

namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

/// The seconds in the names of earlier files, at least `now`: TensorBoard reads files in the order of their names, so a
/// later file must have a later name, also when the clocks of two hosts differ or two starts share a second.
int64_t name_seconds(const base::FileSystem& files, const base::Path& directory, double now) {
  auto seconds = static_cast<int64_t>(now);
  for (const std::string& name : files.list(directory)) {
    if (!name.starts_with(kPrefix)) continue;
    int64_t earlier = 0;
    const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), earlier);
    // A number of more digits sorts before these, and none of ours has them.
    if (error == std::errc() && earlier < 9'999'999'999) seconds = std::max(seconds, earlier + 1);
  }
  return seconds;
}

}  // namespace

EventWriter::EventWriter(base::FileSystem& files, base::Path directory, std::string host, int64_t first_step,
                         base::TimeSource now)
    : files_(files),
      directory_(std::move(directory)),
      host_(std::move(host)),
      first_step_(first_step),
      now_(std::move(now)) {}

void EventWriter::open() {
  files_.create_directories(directory_);
  const double now = now_();
  const auto name = fmt::format("{}{:010}.{}", kPrefix, name_seconds(files_, directory_, now), host_);
  path_ = directory_ / name;
  file_ = files_.create_exclusive(path_);
  identity_ = base::identity_of(path_);
  file_->write(record(file_version_event(now)) + record(session_start_event(now, first_step_)));
  files_.sync_directory(directory_);
}

void EventWriter::write(int64_t step, std::span<const Scalar> scalars) {
  std::vector<base::ProtoMessage> values;
  for (const Scalar& scalar : scalars) values.push_back(scalar_value(scalar));
  write_values(step, values);
  first_step_ = step + 1;  // first step of a file that takes this one's place
}

void EventWriter::write(int64_t step, std::span<const Picture> pictures) {
  std::vector<base::ProtoMessage> values;
  for (const Picture& picture : pictures) values.push_back(picture_value(picture));
  if (!values.empty()) write_values(step, values);
}

void EventWriter::write_configuration(std::span<const HyperParameter> parameters, const std::string& run,
                                      const std::string& markdown) {
  const std::vector<base::ProtoMessage> values = {hyperparameters_value(parameters, run, now_()),
                                                  text_value("configuration", markdown)};
  write_values(first_step_, values);
}

void EventWriter::write_values(int64_t step, std::span<const base::ProtoMessage> values) {
  if (!file_) open();
  file_->write(record(summary_event(now_(), step, values)));
}

void EventWriter::sync() {
  if (file_) file_->sync();
}

bool EventWriter::displaced() const { return file_ && identity_ && base::is_displaced(path_, *identity_); }

void EventWriter::reopen() { file_.reset(); }

}  // namespace ddpm::observe
