#include "base/wrapped.h"

#include <algorithm>

namespace ddpm::base {

std::string wrapped(const std::string& text, std::size_t width, std::size_t first, std::size_t indent) {
  std::string out;
  std::size_t column = first;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const bool fits = column + (end - at) + 1 <= width;
    if (at > 0) out += fits ? " " : "\n";
    if (!fits) {
      if (at > 0) out.append(indent, ' ');
      column = indent;
    }
    out += text.substr(at, end - at);
    column += end - at + 1;
    at = end + 1;
  }
  return out + "\n";
}

}  // namespace ddpm::base
