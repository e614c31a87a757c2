#include "checkpoint/process_start.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace ddpm::checkpoint {
namespace {

/// Of this kernel since its start, and of the process numbers in use here: containers may count their own.
std::string process_table() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  return fmt::format("{}/{}", boot, std::filesystem::read_symlink("/proc/self/ns/pid", error).string());
}

}  // namespace

std::string process_start_of(int64_t pid) {
  constexpr int kStartTimeAfterName = 20;  // field 22 of /proc/PID/stat; the name ends field 2: proc(5)
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return {};
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 0; i < kStartTimeAfterName; ++i) {
    fields >> field;
    if (i == 0 && (field == "Z" || field == "X")) return {};
  }
  return fmt::format("{}/{}", process_table(), field);
}

bool has_surely_ended(int64_t pid, const std::string& start) {
  const auto table = [](const std::string& text) { return text.substr(0, text.rfind('/')); };
  if (pid <= 0 || table(start) != process_table()) return false;  // another kernel's or container's process
  const std::string now = process_start_of(pid);
  // Other users' processes may be hidden in /proc, but not from signals.
  if (now.empty() && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == EPERM) return false;
  return now != start;
}

}  // namespace ddpm::checkpoint
