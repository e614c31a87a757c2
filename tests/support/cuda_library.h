// Where the tests on a GPU find libddpm_cuda.so, wherever they have been carried.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace ddpm::test {

/// The file that $DDPM_CUDA_LIBRARY names; without it the empty path, by which DeviceLibrary looks beside the program.
inline std::filesystem::path cuda_library() {
  const char* named = std::getenv("DDPM_CUDA_LIBRARY");
  return named != nullptr ? named : "";
}

}  // namespace ddpm::test
