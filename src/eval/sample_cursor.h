// Reading a sample set from one end to the other, some MiB at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/sample_set.h"

namespace ddpm::eval {

class SampleCursor {
 public:
  /// The set must live on.
  SampleCursor(const SampleSet& set, Scale scale);

  /// Samples [first, first + n): [n, channels, pixels...]. They live until the next call. A rank asks for ascending
  /// samples; any others are read, too.
  [[nodiscard]] std::span<const float> values(int64_t first, int64_t n = 1);
  /// Which pixels of the sample are valid, [pixels...].
  [[nodiscard]] std::span<const uint8_t> valid(int64_t sample);

 private:
  const SampleSet& set_;
  Scale scale_;
  std::size_t size_;   // numbers that a sample has
  int64_t at_once_;    // samples that are read together
  int64_t first_ = 0;  // the first sample in values_
  std::vector<float> values_;
  std::vector<uint8_t> valid_;
};

}  // namespace ddpm::eval
