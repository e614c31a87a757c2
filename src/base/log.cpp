#include "base/log.h"

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
  if (world_size_ > 1) {
    put_line(fmt::format("ddpm: error: rank {} on {}: {}\n", rank_, host_name(), message));
  } else {
    put_line(fmt::format("ddpm: error: {}\n", message));
  }
}

}  // namespace ddpm::base
