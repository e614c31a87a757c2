#include "eval/sample_cursor.h"

#include <algorithm>

namespace ddpm::eval {
namespace {

constexpr int64_t kNumbersAtOnce = int64_t{1} << 20;

}  // namespace

SampleCursor::SampleCursor(const SampleSet& set, Scale scale)
    : set_(set),
      scale_(scale),
      size_(static_cast<std::size_t>(set.channels() * set.pixels())),
      at_once_(std::max<int64_t>(1, kNumbersAtOnce / static_cast<int64_t>(size_))) {}

std::span<const float> SampleCursor::values(int64_t first, int64_t n) {
  const int64_t held = std::ssize(values_) / static_cast<int64_t>(size_);
  if (first < first_ || first + n > first_ + held) {
    const int64_t count = std::min(std::max(n, at_once_), set_.size() - first);
    values_.resize(static_cast<std::size_t>(count) * size_);
    set_.read(first, count, scale_, values_);
    first_ = first;
  }
  return std::span<const float>(values_).subspan(static_cast<std::size_t>(first - first_) * size_,
                                                 static_cast<std::size_t>(n) * size_);
}

std::span<const uint8_t> SampleCursor::valid(int64_t sample) {
  const bool is_read = !valid_.empty() && !set_.has_mask();
  valid_.resize(static_cast<std::size_t>(set_.pixels()));
  if (!is_read) set_.read_valid(sample, 1, valid_);
  return valid_;
}

}  // namespace ddpm::eval
