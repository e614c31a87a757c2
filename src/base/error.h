// Typed errors and the program's documented exit codes.
//
// An error is one line for a person: what failed, where, the value seen and the value wanted. It is thrown where the
// failure is seen and caught only in main(), which prints it and ends the job with the error's exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ddpm::base {

/// What the process returns to the shell, mpirun or srun.
enum class ExitCode : int {
  done = 0,
  bug = 1,            ///< an internal check failed
  usage = 2,          ///< command line or configuration
  dataset = 3,        ///< dataset unreadable, damaged, or unfit for the model
  output = 4,         ///< checkpoint, model folder or output files; a locked or foreign run folder
  communication = 5,  ///< communication, hang, lost or missing rank
  numerics = 6,       ///< non-finite loss, exhausted loss scale
  stopped = 75,       ///< stopped on request with a checkpoint; resumable
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Defines `struct Name : Error` with a constructor that formats its message: throw ConfigError("bad {}", key).
#define DDPM_DEFINE_ERROR(Name, exit_code)                                      \
  struct Name : Error {                                                         \
    template <typename... Args>                                                 \
    explicit Name(fmt::format_string<Args...> format, Args&&... args)           \
        : Error(exit_code, fmt::format(format, std::forward<Args>(args)...)) {} \
  }

DDPM_DEFINE_ERROR(InternalError, ExitCode::bug);
DDPM_DEFINE_ERROR(ConfigError, ExitCode::usage);
DDPM_DEFINE_ERROR(DatasetError, ExitCode::dataset);
DDPM_DEFINE_ERROR(OutputError, ExitCode::output);
DDPM_DEFINE_ERROR(CommunicationError, ExitCode::communication);
DDPM_DEFINE_ERROR(NumericsError, ExitCode::numerics);

#undef DDPM_DEFINE_ERROR

}  // namespace ddpm::base
