// What long work calls as it proceeds.
#pragma once

#include <cstdint>
#include <functional>

namespace ddpm::base {

/// `done` of `total` units are complete.
using ProgressReport = std::function<void(int64_t done, int64_t total)>;

}  // namespace ddpm::base
