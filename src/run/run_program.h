// Leads from main() to a body that runs on every rank, and back to an exit code.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

#include "run/runtime.h"

namespace ddpm::run {

/// --help was asked for and given: thrown by all ranks together. It is not an error, and the exit code is 0.
struct HelpGiven : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "help was given"; }
};

/// When the CUDA library (device/device_library.h) is opened on a machine with GPUs.
enum class CudaLibrary : uint8_t {
  at_start,  ///< before `body` may ask LibTorch about CUDA, which looks once and remembers that there was none
  if_needed  ///< by what computes on a GPU: it takes a second, and `body` asks LibTorch nothing before
};

/// Starts MPI, calls `body` on every rank and returns what main() should return: 0, or the exit code of the error that
/// it threw (base/error.h), of which one rank prints the line. Where the ranks agreed on an error, all return its code;
/// where one rank alone has one, it ends them all.
int run_program(int argc, char** argv, const std::function<void(const Runtime& runtime)>& body,
                const comm::StartOptions& start = {}, CudaLibrary cuda = CudaLibrary::at_start);

}  // namespace ddpm::run
