// A sample's random numbers, one after the other.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"

namespace ddpm::generate {

// Streams of base/random.h from 0x20000 on are the generators' own; position = sample.
inline constexpr auto kChainStream = static_cast<base::Stream>(0x20000U);  ///< step: see Draws
inline constexpr auto kFieldStream = static_cast<base::Stream>(0x20001U);  ///< step = trajectory of the sample's chain
inline constexpr auto kOrderStream = static_cast<base::Stream>(0x20002U);  ///< which of the things that there are

/// The words of (seed, kChainStream, 0, sample), then those of step 1 and so on: 2^34 words each.
class Draws {
 public:
  Draws(uint64_t seed, int64_t sample) : seed_(seed), sample_(static_cast<uint64_t>(sample)), sequence_(at_step(0)) {}

  /// Uniform over 32 bits.
  uint32_t word() {
    if (next_ == words_.size()) refill();
    return words_[next_++];
  }
  /// Uniform in (0, 1).
  double uniform() { return (word() + 0.5) * 0x1p-32; }
  /// Uniform in [0, n), n < 2^32.
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((uint64_t{word()} * n) >> 32U); }

 private:
  [[nodiscard]] base::RandomSequence at_step(uint64_t step) const { return {seed_, kChainStream, step, sample_}; }
  void refill() {
    words_ = sequence_.block(block_++);
    next_ = 0;
    if (block_ == 0) sequence_ = at_step(++step_);
  }

  uint64_t seed_;
  uint64_t sample_;
  uint64_t step_ = 0;
  uint32_t block_ = 0;
  base::RandomSequence sequence_;
  std::array<uint32_t, 4> words_{};
  std::size_t next_ = 4;
};

}  // namespace ddpm::generate
