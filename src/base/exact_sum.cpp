#include "base/exact_sum.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace ddpm::base {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int kLimbBits = 32;
constexpr int64_t kLimbMask = (int64_t{1} << kLimbBits) - 1;
constexpr int kMantissaBits = 52;
constexpr uint64_t kHiddenBit = uint64_t{1} << kMantissaBits;
constexpr uint64_t kExponentMask = 0x7FF;
constexpr int kLowestExponent = -1074;
/// Each value adds less than 2^32 to a limb, whose room this many cannot fill.
constexpr uint32_t kMostPending = uint32_t{1} << 30U;

}  // namespace

void ExactSum::add(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t exponent = bits >> kMantissaBits & kExponentMask;
  DDPM_CHECK(exponent != kExponentMask, "{} in an exact sum", value);
  const uint64_t fraction = bits & (kHiddenBit - 1);
  const uint64_t mantissa = exponent == 0 ? fraction : fraction | kHiddenBit;
  const uint64_t place = exponent == 0 ? 0 : exponent - 1;
  const std::size_t limb = place / kLimbBits;
  const Wide shifted = Wide{mantissa} << (place % kLimbBits);
  const int64_t sign = std::signbit(value) ? -1 : 1;
  limbs_[limb] += sign * (static_cast<int64_t>(shifted) & kLimbMask);
  limbs_[limb + 1] += sign * (static_cast<int64_t>(shifted >> kLimbBits) & kLimbMask);
  limbs_[limb + 2] += sign * static_cast<int64_t>(shifted >> 2 * kLimbBits);
  if (++pending_ == kMostPending) {
    carry(limbs_);
    pending_ = 0;
  }
}

/// Afterwards all limbs but the last hold 32 bits that are not negative; the last one has the sign.
void ExactSum::carry(Limbs& limbs) {
  for (std::size_t i = 0; i + 1 < kLimbs; ++i) {
    limbs[i + 1] += limbs[i] >> kLimbBits;
    limbs[i] &= kLimbMask;
  }
}

std::span<int64_t> ExactSum::limbs() {
  carry(limbs_);
  pending_ = 0;
  return limbs_;
}

double ExactSum::value() const {
  Limbs limbs = limbs_;
  carry(limbs);
  const bool negative = limbs.back() < 0;
  if (negative) {
    for (int64_t& limb : limbs) limb = -limb;
    carry(limbs);
  }
  std::size_t top = kLimbs - 1;
  while (top > 2 && limbs[top] == 0) --top;
  // Three limbs from the first one that is not 0 have more than 64 bits. The last of 64 bits stands for all below it,
  // which is enough for the conversion to round as if it saw them.
  Wide window = 0;
  for (std::size_t i = 0; i <= 2; ++i) window = window << kLimbBits | static_cast<Wide>(limbs[top - i]);
  bool rest = false;
  for (std::size_t i = 0; i + 2 < top; ++i) rest = rest || limbs[i] != 0;
  int exponent = kLowestExponent + static_cast<int>(top - 2) * kLimbBits;
  int shift = 0;
  while (window >> shift > ~uint64_t{0}) ++shift;
  rest = rest || (window & ((Wide{1} << shift) - 1)) != 0;
  const uint64_t highest = static_cast<uint64_t>(window >> shift) | (rest ? 1U : 0U);
  const double magnitude = std::ldexp(static_cast<double>(highest), exponent + shift);
  return negative ? -magnitude : magnitude;
}

}  // namespace ddpm::base
