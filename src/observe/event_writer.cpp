#include "observe/event_writer.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/crc32c.h"

namespace ddpm::observe {

namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

// --- Protocol-buffer wire format: fields of (number << 3 | wire type), little-endian fixed values, LEB128 varints
// ------

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) out.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
  out.push_back(static_cast<char>(value));
}

template <typename Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
  for (unsigned i = 0; i < sizeof(Unsigned); ++i) out.push_back(static_cast<char>((value >> (8U * i)) & 0xFFU));
}

void put_key(std::string& out, uint32_t field, Wire wire) {
  put_varint(out, (field << 3U) | static_cast<uint32_t>(wire));
}

void put_int(std::string& out, uint32_t field, int64_t value) {
  put_key(out, field, Wire::varint);
  put_varint(out, static_cast<uint64_t>(value));
}

void put_double(std::string& out, uint32_t field, double value) {
  put_key(out, field, Wire::fixed64);
  put_little_endian(out, std::bit_cast<uint64_t>(value));
}

void put_float(std::string& out, uint32_t field, float value) {
  put_key(out, field, Wire::fixed32);
  put_little_endian(out, std::bit_cast<uint32_t>(value));
}

void put_bytes(std::string& out, uint32_t field, std::string_view value) {
  put_key(out, field, Wire::bytes);
  put_varint(out, value.size());
  out.append(value);
}

// --- Messages
// ----------------------------------------------------------------------------------------------------------

/// Event { double wall_time = 1; int64 step = 2; ... }, to which the one field that says what happened is added.
std::string event(double wall_time, int64_t step) {
  std::string out;
  put_double(out, 1, wall_time);
  put_int(out, 2, step);
  return out;
}

/// Event.file_version = 3: the first record of every file.
std::string file_version_event(double wall_time) {
  std::string out = event(wall_time, 0);
  put_bytes(out, 3, "brain.Event:2");
  return out;
}

/// Event.session_log = 7, SessionLog { SessionStatus status = 1 [START = 1] }: what older files hold of `step` and
/// later steps no longer counts.
std::string session_start_event(double wall_time, int64_t step) {
  std::string session_log;
  put_int(session_log, 1, 1);
  std::string out = event(wall_time, step);
  put_bytes(out, 7, session_log);
  return out;
}

/// Event.summary = 5, Summary { repeated Value { string tag = 1; float simple_value = 2 } value = 1 }.
std::string summary_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_float(value, 2, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  std::string out = event(wall_time, step);
  put_bytes(out, 5, summary);
  return out;
}

/// TFRecord hides its checksums from checksums of the file that holds them: rotate right by 15 bits, add a constant.
uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(base::crc32c(std::as_bytes(std::span(bytes))), 15) + 0xA282EAD8U;
}

std::string record(std::string_view data) {
  std::string out;
  put_little_endian(out, uint64_t{data.size()});
  put_little_endian(out, masked_crc(out));
  out.append(data);
  put_little_endian(out, masked_crc(data));
  return out;
}

/// The seconds in the names of earlier files, at least `now`: TensorBoard reads files in the order of their names, so a
/// later file must have a later name, also when the clocks of two hosts differ or two starts share a second.
int64_t name_seconds(const base::FileSystem& files, const base::Path& directory, double now) {
  auto seconds = static_cast<int64_t>(now);
  for (const std::string& name : files.list(directory)) {
    if (!name.starts_with(kPrefix)) continue;
    int64_t earlier = 0;
    const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), earlier);
    if (error == std::errc()) seconds = std::max(seconds, earlier + 1);
  }
  return seconds;
}

}  // namespace

EventWriter::EventWriter(base::FileSystem& files, base::Path directory, std::string host, int64_t first_step, Clock now)
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
  if (!file_) open();
  file_->write(record(summary_event(now_(), step, scalars)));
  first_step_ = step + 1;  // of a file that takes this one's place
}

void EventWriter::sync() {
  if (file_) file_->sync();
}

bool EventWriter::displaced() const { return file_ && identity_ && base::is_displaced(path_, *identity_); }

void EventWriter::reopen() { file_.reset(); }

}  // namespace ddpm::observe
