// Calls into C libraries that report errors by a callback which must not return (libpng, libjpeg).
//
// An exception must not cross C frames, and longjmp must not cross C++ objects with destructors. So the callback jumps
// back here, over nothing but the library's frames and those of `work`, and the caller throws from its own frame.
#pragma once

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <new>
#include <string_view>

#include "base/error.h"

namespace ddpm::data::prepare {

/// Where an error callback leaves its message and jumps to.
struct ErrorTrap {
  std::jmp_buf back = {};
  std::array<char, 256> message = {};
  bool set = false;            ///< whether guarded() is at work
  bool out_of_memory = false;  ///< the machine's memory ran out, which says nothing about the data

  [[noreturn]] void raise(std::string_view text) {
    const std::size_t length = std::min(text.size(), message.size() - 1);
    std::copy_n(text.data(), length, message.data());
    message[length] = '\0';
    std::longjmp(back, 1);
  }
};

/// Throws what a library raised, after guarded() said false: std::bad_alloc where memory ran out, else DatasetError.
[[noreturn]] inline void throw_trapped(const ErrorTrap& trap, std::string_view format) {
  if (trap.out_of_memory) throw std::bad_alloc();
  throw base::DatasetError("{}: {}", format, trap.message.data());
}

/// Runs `work`; false when the library raised an error. `work` and what it calls must own nothing that needs a
/// destructor; its results are left in objects of the caller.
template <typename Work>
[[nodiscard]] bool guarded(ErrorTrap& trap, const Work& work) {
  const bool raised = setjmp(trap.back) != 0;  // NOLINT(cert-err52-cpp): see above
  trap.set = !raised;
  if (raised) return false;
  work();
  trap.set = false;
  return true;
}

}  // namespace ddpm::data::prepare
