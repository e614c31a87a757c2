#include "doctor/mount.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <vector>

namespace ddpm::doctor {
namespace {

/// "\040" of mountinfo is a blank; likewise for other bytes, three octal digits each.
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool octal = text[i] == '\\' && i + 3 < text.size() && text.find_first_not_of("01234567", i + 1) > i + 3;
    if (!octal) {
      out += text[i];
      continue;
    }
    out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return out;
}

bool holds(const std::string& point, const std::string& path) {
  if (point == "/") return true;
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

}  // namespace

Mount find_mount(std::string_view mountinfo, const base::Path& path) {
  constexpr std::size_t kPoint = 4;
  constexpr std::size_t kOptions = 5;
  Mount best;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    // "36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw": a dash ends the optional fields.
    std::istringstream words(line);
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() <= static_cast<std::ptrdiff_t>(kOptions) || fields.end() - dash < 3) continue;
    const std::string point = unescaped(fields[kPoint]);
    if (holds(point, path.string()) && point.size() >= best.point.size()) {
      best = {point, dash[1], unescaped(dash[2]), fields[kOptions]};
    }
  }
  return best;
}

}  // namespace ddpm::doctor
