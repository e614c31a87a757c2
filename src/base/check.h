// Checks what the program itself promises. A failed check is a bug (exit code 1), never a user's mistake.
#pragma once

#include "base/error.h"

/// DDPM_CHECK(a == b, "a {} b {}", a, b): throws InternalError with the expression, its place and the values.
#define DDPM_CHECK(expression, ...)                                                                          \
  do {                                                                                                       \
    if (!(expression)) {                                                                                     \
      throw ::ddpm::base::InternalError("{}:{}: check failed: {}: {}", __FILE_NAME__, __LINE__, #expression, \
                                        fmt::format(__VA_ARGS__));                                           \
    }                                                                                                        \
  } while (false)
