#include "checkpoint/process_start.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "base/file_error.h"
#include "base/file_system.h"

namespace ddpm::checkpoint {
namespace {

/// The text of a file of the kernel; "" when there is no such file.
std::string text_of(const std::string& path) {
  constexpr uint64_t kMaxBytes = 4096;
  try {
    return base::posix_file_system()->read(path, kMaxBytes);
  } catch (const base::AccessError&) {
    throw;
  } catch (const base::OutputError&) {
    return {};
  }
}

/// Names this kernel's boot and the namespace of process ids, since containers may count their own.
std::string process_table() {
  std::string boot = text_of("/proc/sys/kernel/random/boot_id");
  boot = boot.substr(0, boot.find('\n'));
  std::error_code error;
  return fmt::format("{}/{}", boot, std::filesystem::read_symlink("/proc/self/ns/pid", error).string());
}

}  // namespace

std::string process_start_of(int64_t pid) {
  constexpr int kStartTimeAfterName = 20;  // field 22 of /proc/PID/stat; the name ends field 2: proc(5)
  const std::string line = text_of(fmt::format("/proc/{}/stat", pid));
  if (line.empty()) return {};
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 0; i < kStartTimeAfterName; ++i) {
    fields >> field;
    if (i == 0 && (field == "Z" || field == "X")) return {};
  }
  return fmt::format("{}/{}", process_table(), field);
}

bool has_surely_ended(int64_t pid, const std::string& start) try {
  const auto table = [](const std::string& text) { return text.substr(0, text.rfind('/')); };
  if (pid <= 0 || table(start) != process_table()) return false;  // another kernel's or container's process
  const std::string now = process_start_of(pid);
  // Other users' processes may be hidden in /proc, but not from signals.
  if (now.empty() && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == EPERM) return false;
  return now != start;
} catch (const base::AccessError&) {
  return false;  // too many open files, for one: that says nothing of the process
}

}  // namespace ddpm::checkpoint
