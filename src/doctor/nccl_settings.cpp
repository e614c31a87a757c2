#include "doctor/nccl_settings.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/input_file.h"
#include "base/machine_memory.h"

namespace ddpm::doctor {
namespace {

bool can_be_seen(const base::Path& path) {
  try {
    return base::is_there(path);
  } catch (const base::Error&) {
    return false;  // the linker may not look there either
  }
}

/// Calls `use` with each part of `text`.
template <class Use>
void each_part(std::string_view text, std::string_view separators, Use use) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void add_settings(const base::Path& file, std::map<std::string, std::string>& settings) {
  std::istringstream lines(base::kernel_file(file));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || line.starts_with('#')) continue;
    settings.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
}

}  // namespace

std::map<std::string, std::string> nccl_file_settings(const comm::Environment& environment, const base::Path& root) {
  std::map<std::string, std::string> settings;
  if (const auto own = environment("NCCL_CONF_FILE"); own && !own->empty()) {
    add_settings(*own, settings);
  } else if (const auto home = environment("HOME")) {
    add_settings(base::Path(*home) / ".nccl.conf", settings);
  }
  add_settings(root / "etc/nccl.conf", settings);
  return settings;
}

std::vector<std::string> nccl_plugin_names(std::string_view choice) {
  if (choice.empty()) return {"libnccl-net.so"};
  std::vector<std::string> names;
  each_part(choice, ",", [&](std::string_view name) {
    if (name == "none") return;
    names.emplace_back(name);  // a path, or the whole name of the library
    names.push_back(fmt::format("libnccl-net-{}.so", name));
  });
  return names;
}

std::string find_library(const std::vector<std::string>& names, std::string_view places, const base::Path& root) {
  const std::string cache = base::kernel_file(root / "etc/ld.so.cache");
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos) {
      if (can_be_seen(name)) return name;
      continue;
    }
    std::string found;
    each_part(places, ":;", [&](std::string_view place) {
      const base::Path file = base::Path(place) / name;
      if (found.empty() && !place.empty() && can_be_seen(file)) found = file.string();
    });
    if (!found.empty()) return found;
    // The cache has the paths of its libraries as texts that end with a zero.
    const std::size_t at = cache.find("/" + name + '\0');
    if (at == std::string::npos) continue;
    const std::size_t begin = cache.rfind('\0', at);
    return cache.substr(begin + 1, at + 1 + name.size() - (begin + 1));  // npos + 1 is the beginning
  }
  return "";
}

}  // namespace ddpm::doctor
