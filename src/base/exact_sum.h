// The sum of any doubles without rounding: it does not depend on their order, nor on who added which of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ddpm::base {

/// A fixed-point number that covers every double (Kulisch: "Advanced arithmetic for the digital computer", 2002): limbs
/// of 32 bits, each with 31 bits of room for carries, in units of 2^-1074.
class ExactSum {
 public:
  /// `value` is finite. Takes a few nanoseconds.
  void add(double value);

  /// The double nearest to the sum, ties to even; what math.fsum of Python gives.
  [[nodiscard]] double value() const;

  /// The number itself, for sums over ranks: replace each element by its sum over at most 2^30 ranks, and value() is
  /// that of all they added.
  [[nodiscard]] std::span<int64_t> limbs();

 private:
  // The largest double ends at bit 2098 of the number; the rest is room for 2^77 of them.
  static constexpr std::size_t kLimbs = 68;
  using Limbs = std::array<int64_t, kLimbs>;
  static void carry(Limbs& limbs);

  Limbs limbs_{};
  uint32_t pending_ = 0;  // values since the last carry
};

}  // namespace ddpm::base
