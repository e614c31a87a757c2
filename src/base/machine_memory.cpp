#include "base/machine_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include <sys/resource.h>

namespace ddpm::base {
namespace {

using std::filesystem::path;

/// The number at the beginning of a text, after spaces.
std::optional<int64_t> integer(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;  // "max", or nothing at all
  return value;
}

/// The number behind a key that begins a line; 0 without one.
int64_t number_of(const std::string& text, const std::string& key) {
  const std::size_t at = text.starts_with(key) ? 0 : text.find("\n" + key);
  if (at == std::string::npos) return 0;
  return integer(std::string_view(text).substr(at + key.size() + (at == 0 ? 0 : 1))).value_or(0);
}

/// What a group may use, and what its processes have already.
struct GroupMemory {
  std::optional<int64_t> limit;
  int64_t used = 0;
};

GroupMemory memory_of(const path& group, bool first_version) {
  constexpr int64_t kNone = int64_t{1} << 60;  // version 1 writes "no limit" as a number beyond this
  GroupMemory memory;
  memory.limit = integer(kernel_file(group / (first_version ? "memory.limit_in_bytes" : "memory.max")));
  if (memory.limit && *memory.limit >= kNone) memory.limit.reset();
  if (!memory.limit) return memory;
  const auto used = integer(kernel_file(group / (first_version ? "memory.usage_in_bytes" : "memory.current")));
  const std::string statistics = kernel_file(group / "memory.stat");
  const std::string all = first_version ? "total_" : "";  // in version 1 these keys count the groups inside, too
  const int64_t files = number_of(statistics, all + "inactive_file ") + number_of(statistics, all + "active_file ");
  memory.used = std::max<int64_t>(used.value_or(0) - files, 0);
  return memory;
}

}  // namespace

std::string kernel_file(const path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

void each_control_group(const path& root,
                        const std::function<void(const path& group, const std::string& kinds)>& look) {
  std::istringstream lines(kernel_file(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "0::/group", or of version 1 "4:memory:/group"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = line.substr(first + 1, second - first - 1);
    const path hierarchy = kinds.empty() ? root / "sys/fs/cgroup" : root / "sys/fs/cgroup" / kinds;
    for (path group = path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
      look(group.empty() ? hierarchy : hierarchy / group, kinds);
      if (group.empty()) break;
    }
  }
}

std::optional<int64_t> process_memory_limit() {
  std::optional<int64_t> least;
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    least = std::min(least.value_or(std::numeric_limits<int64_t>::max()), static_cast<int64_t>(limit.rlim_cur));
  }
  return least;
}

MachineMemory read_machine_memory(const path& root) {
  constexpr int64_t kKib = 1024;
  const std::string text = kernel_file(root / "proc/meminfo");
  MachineMemory memory{.total = kKib * number_of(text, "MemTotal:"),
                       .available = kKib * number_of(text, "MemAvailable:")};
  each_control_group(root, [&](const path& group, const std::string& kinds) {
    const GroupMemory of_group = memory_of(group, !kinds.empty());
    if (!of_group.limit) return;
    memory.limit = memory.limit < 0 ? *of_group.limit : std::min(memory.limit, *of_group.limit);
    memory.available = std::min(memory.available, std::max<int64_t>(*of_group.limit - of_group.used, 0));
  });
  return memory;
}

}  // namespace ddpm::base
