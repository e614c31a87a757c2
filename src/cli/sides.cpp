#include "cli/sides.h"

#include <algorithm>

#include "base/error.h"
#include "cli/command_line.h"

namespace ddpm::cli {

std::vector<int64_t> sides_of(const std::string& option, const std::string& text, int64_t most,
                              const std::string& wanted) {
  std::vector<int64_t> sides;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const std::string side = text.substr(begin, end - begin);
    const std::string problem =
        side.empty() ? "a side is missing" : read_value(side, IntegerRange{1, most}, sides.emplace_back());
    if (!problem.empty()) throw base::ConfigError("{} {}: {}; wanted: {}", option, text, problem, wanted);
    begin = end + 1;
  }
  return sides;
}

}  // namespace ddpm::cli
