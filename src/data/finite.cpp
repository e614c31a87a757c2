#include "data/finite.h"

#include <algorithm>
#include <cstring>

namespace ddpm::data {
namespace {

/// All bits of a float32's exponent: set in infinities and NaNs only.
constexpr uint32_t kExponent = 0x7F800000U;

bool is_finite_at(std::span<const std::byte> floats, std::size_t index) {
  uint32_t bits = 0;
  std::memcpy(&bits, floats.data() + index * sizeof(bits), sizeof(bits));
  return (bits & kExponent) != kExponent;
}

}  // namespace

std::optional<int64_t> first_non_finite(std::span<const std::byte> floats) {
  // A block without a branch inside becomes vector code; only a block with a bad value is looked through one by one.
  constexpr std::size_t kBlock = 1024;
  const std::size_t count = floats.size() / sizeof(float);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, count);
    uint32_t bad = 0;
    for (std::size_t i = begin; i < end; ++i) bad |= is_finite_at(floats, i) ? 0U : 1U;
    for (std::size_t i = begin; bad != 0 && i < end; ++i) {
      if (!is_finite_at(floats, i)) return static_cast<int64_t>(i);
    }
  }
  return std::nullopt;
}

}  // namespace ddpm::data
