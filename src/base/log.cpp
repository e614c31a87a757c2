#include "base/log.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/host_name.h"

namespace ddpm::base {
namespace {

// One call per line: lines of several ranks that share a terminal or a file stay whole.
void put_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void Logger::write(std::string_view prefix, std::string_view message) const {
  put_line(fmt::format("ddpm: {}{}\n", prefix, message));
}

void Logger::write_error(std::string_view message) const {
  const std::string where = world_size_ > 1 ? fmt::format("rank {} on {}: ", rank_, host_name()) : "";
  while (!message.empty()) {
    const std::size_t end = std::min(message.find('\n'), message.size());
    put_line(fmt::format("ddpm: error: {}{}\n", where, message.substr(0, end)));
    message.remove_prefix(std::min(end + 1, message.size()));
  }
}

}  // namespace ddpm::base
