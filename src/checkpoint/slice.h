// Which part of a global tensor some bytes hold, and copying between two such parts.
//
// A slice is a hyper-rectangle (box) of the global tensor, then a flat range of the box's elements in row-major order:
// tensor parallelism cuts boxes, ZeRO cuts flat ranges. Checkpoints store slices, and any other cut can be read back,
// since whatever two slices share is a small set of boxes (see boxes_of).
//
// Pure arithmetic with checked sizes. Errors: base::OutputError that names the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "layout/range.h"

namespace ddpm::checkpoint {

/// No tensor has more axes, so recursion over the axes stays shallow.
inline constexpr std::size_t kMaxAxes = 16;

/// One range per axis. A scalar has no axes, and its box holds one element.
using Box = std::vector<layout::Range>;

struct TensorSlice {
  std::string name;
  base::DType dtype = base::DType::f32;
  std::vector<int64_t> global_shape;
  Box box;             ///< hyper-rectangle of the global tensor
  layout::Range flat;  ///< range of the box's row-major elements
};

/// The whole tensor.
TensorSlice whole_slice(std::string name, base::DType dtype, std::vector<int64_t> shape);
/// Elements [flat.begin, flat.end) of the whole tensor in row-major order.
TensorSlice flat_slice(std::string name, base::DType dtype, std::vector<int64_t> shape, layout::Range flat);

/// Product of the sizes; throws "where: …" when there are more than kMaxAxes, one is negative, or the product of those
/// that are not 0, times 8 bytes, passes int64.
int64_t element_count(std::span<const int64_t> shape, const std::string& where);
/// Elements of a box that lies inside a valid tensor.
int64_t element_count(const Box& box);
/// Bytes of the slice's elements.
int64_t byte_count(const TensorSlice& slice);

/// Throws unless the box lies inside the global shape and the flat range inside the box. An empty slice is valid.
void validate(const TensorSlice& slice);

/// The flat range as disjoint boxes of the global tensor, in row-major order of the slice: at most 2·axes − 1 of them.
std::vector<Box> boxes_of(const TensorSlice& slice);

/// Copies what `from` and `to` share from `from_bytes` into `to_bytes`, each holding exactly its slice's elements.
/// Returns the number of elements copied. Both must be slices of one tensor: same name, dtype and global shape.
int64_t copy_intersection(const TensorSlice& from, std::span<const std::byte> from_bytes, const TensorSlice& to,
                          std::span<std::byte> to_bytes);

/// Whether the slices have an element in common.
bool overlap(const TensorSlice& a, const TensorSlice& b);

/// Throws unless the slices of one tensor, which all have its shape, cover each element of it exactly once. An exact
/// cover is never refused; anything else is accepted with a probability below 2^-56 (exact_cover.cpp). Linear time.
void check_exact_cover(const std::string& name, std::span<const int64_t> shape, std::span<const TensorSlice> slices);

}  // namespace ddpm::checkpoint
