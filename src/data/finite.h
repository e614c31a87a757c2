// Finding values that nothing can be trained on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ddpm::data {

/// The index of the first value that is infinite or not a number, or none. `floats` holds float32 values and needs no
/// alignment. It takes one pass over the bytes, in vector instructions.
std::optional<int64_t> first_non_finite(std::span<const std::byte> floats);

}  // namespace ddpm::data
