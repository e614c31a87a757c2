// Inside src/h5 only: boxes of arrays whose last axis runs fastest, and the bytes that they are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddpm::h5 {

/// A part of an array: along each axis `extent` elements from `begin` on.
struct Box {
  std::vector<uint64_t> begin = {};
  std::vector<uint64_t> extent = {};
};

/// A box of an array, and where it goes: it begins at `at` in an array of another shape.
struct BoxCopy {
  Box box;
  std::vector<uint64_t> at = {};
};

/// Bytes that lie together in both arrays of a copy. Places are in bytes.
struct Line {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;
};

/// The bytes of a copy from an array of `shape` to one of `target`, in the order of both.
std::vector<Line> lines_of(const BoxCopy& copy, std::span<const uint64_t> shape, std::span<const uint64_t> target,
                           std::size_t element_bytes);

/// Fills `out` with copies of one element.
void fill_with(std::span<const std::byte> element, std::span<std::byte> out);

/// A window of `extent` from `begin` on that goes around: what reaches beyond the end of an axis goes on at its
/// beginning. Returns the boxes that it is made of, at most 2 for each axis, and where they go in an array of the
/// window's shape.
std::vector<BoxCopy> boxes_of(const Box& window, std::span<const uint64_t> shape);

}  // namespace ddpm::h5
