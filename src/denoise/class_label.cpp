#include "denoise/class_label.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/parse_number.h"
#include "config/resolve.h"

namespace ddpm::denoise {
namespace {

[[noreturn]] void refuse(const std::string& text, const std::vector<std::string>& names) {
  if (names.empty()) {
    throw base::ConfigError("--class-label {}: the model does not know the names of its classes; a number is wanted",
                            text);
  }
  const std::string near = config::nearest(text, names);
  if (!near.empty()) {
    throw base::ConfigError("--class-label {}: no class has this name; did you mean {}?", text, near);
  }
  constexpr std::size_t kShown = 10;
  const std::size_t shown = std::min(kShown, names.size());
  throw base::ConfigError("--class-label {}: no class has this name; the {} classes are {}{}", text, names.size(),
                          fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                          shown < names.size() ? " ..." : "");
}

}  // namespace

int64_t class_of(const std::string& text, const std::vector<std::string>& names, const base::Logger& log) {
  const auto found = std::find(names.begin(), names.end(), text);
  const bool is_name = found != names.end();
  const int64_t named = found - names.begin();
  const std::optional<int64_t> number = base::parse_number<int64_t>(text);
  if (!number && !is_name) refuse(text, names);
  const bool is_class = number && *number >= 0 && *number < std::ssize(names);
  if (!number || (is_name && !is_class)) return named;
  if (is_name && named != *number) {
    log.warn("--class-label {} is taken for the number of {}; the class of that name is number {}", text,
             described_class(*number, names), named);
  }
  return *number;
}

std::string described_class(int64_t label, const std::vector<std::string>& names) {
  const bool known = label >= 0 && label < std::ssize(names);
  return known ? fmt::format("class {} ({})", label, names[static_cast<std::size_t>(label)])
               : fmt::format("class {}", label);
}

}  // namespace ddpm::denoise
