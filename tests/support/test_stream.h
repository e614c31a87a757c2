// Random numbers of tests, which no stream of the program shares.
#pragma once

#include "base/random.h"

namespace ddpm::test {

inline constexpr auto kStream = static_cast<base::Stream>(100);

}  // namespace ddpm::test
