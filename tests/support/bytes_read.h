// How much this process has read.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace ddpm::test {

/// Bytes that system calls of this process have read since it began, of files and of everything else.
inline int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string key;
  int64_t value = 0;
  while (file >> key >> value) {
    if (key == "rchar:") return value;
  }
  ADD_FAILURE() << "/proc/self/io has no rchar";
  return 0;
}

}  // namespace ddpm::test
