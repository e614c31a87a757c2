// Flat ranges and even splits: which rank owns which slice. Pure arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ddpm::layout {

/// Elements [begin, end) of a flat buffer, an axis, or a list.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  [[nodiscard]] int64_t size() const { return end - begin; }
  [[nodiscard]] bool empty() const { return end <= begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// What both cover.
inline Range intersect(Range a, Range b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// Part `index` of `parts` of [0, size): parts differ by at most one element, and come in order.
inline Range even_part(int64_t size, int64_t parts, int64_t index) {
  const int64_t base = size / parts;
  const int64_t rest = size % parts;
  const int64_t begin = index * base + std::min(index, rest);
  return {begin, begin + base + (index < rest ? 1 : 0)};
}

/// Part `index` of `parts` of [0, size) with inner borders on multiples of `alignment`; the last parts may be short or
/// empty.
inline Range aligned_part(int64_t size, int64_t parts, int64_t index, int64_t alignment) {
  const int64_t blocks = (size + alignment - 1) / alignment;
  const Range part = even_part(blocks, parts, index);
  return {std::min(part.begin * alignment, size), std::min(part.end * alignment, size)};
}

}  // namespace ddpm::layout
