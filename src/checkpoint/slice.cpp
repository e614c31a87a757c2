#include "checkpoint/slice.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/error.h"

namespace ddpm::checkpoint {
namespace {

using layout::Range;

constexpr int64_t kMaxElements = std::numeric_limits<int64_t>::max() / 8;  // no dtype is wider than 8 bytes

/// Elements between neighbours along each axis of a row-major box.
std::vector<int64_t> strides_of(const Box& box) {
  std::vector<int64_t> strides(box.size(), 1);
  for (std::size_t axis = box.size(); axis > 1; --axis) {
    strides[axis - 2] = strides[axis - 1] * box[axis - 1].size();
  }
  return strides;
}

/// Appends elements `flat` of the row-major sub-box box[axis:] at the single point that `head` gives for the axes
/// before.
void append_boxes(const Box& box, const std::vector<int64_t>& strides, Box& head, Range flat, std::vector<Box>& out) {
  const std::size_t axis = head.size();
  if (flat.empty()) return;
  if (axis == box.size()) {
    out.push_back(head);
    return;
  }
  const int64_t stride = strides[axis];
  const auto partial_row = [&](int64_t row, Range within) {
    head.push_back({box[axis].begin + row, box[axis].begin + row + 1});
    append_boxes(box, strides, head, within, out);
    head.pop_back();
  };
  int64_t first_row = flat.begin / stride;
  const int64_t end_row = flat.end / stride;
  if (flat.begin % stride != 0) {
    const int64_t origin = first_row * stride;
    partial_row(first_row, {flat.begin - origin, std::min(flat.end - origin, stride)});
    if (++first_row > end_row) return;  // the range ends inside the same row
  }
  if (first_row < end_row) {
    Box whole_rows = head;
    whole_rows.push_back({box[axis].begin + first_row, box[axis].begin + end_row});
    whole_rows.insert(whole_rows.end(), box.begin() + static_cast<std::ptrdiff_t>(axis) + 1, box.end());
    out.push_back(std::move(whole_rows));
  }
  partial_row(end_row, {0, flat.end - end_row * stride});
}

Box intersect(const Box& a, const Box& b) {
  Box both(a.size());
  for (std::size_t axis = 0; axis < a.size(); ++axis) both[axis] = layout::intersect(a[axis], b[axis]);
  return both;
}

bool is_empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](Range range) { return range.empty(); });
}

/// Where the elements of a slice lie in its bytes.
struct View {
  const Box& box;
  std::vector<int64_t> strides;
  int64_t first;

  explicit View(const TensorSlice& slice) : box(slice.box), strides(strides_of(slice.box)), first(slice.flat.begin) {}

  [[nodiscard]] std::size_t offset(const std::vector<int64_t>& point) const {
    int64_t offset = -first;
    for (std::size_t axis = 0; axis < point.size(); ++axis) offset += (point[axis] - box[axis].begin) * strides[axis];
    return static_cast<std::size_t>(offset);
  }
};

/// Number of trailing axes of `part` that form one contiguous run in both boxes (at least the last axis).
std::size_t contiguous_axes(const Box& part, const Box& a, const Box& b) {
  std::size_t axes = std::min<std::size_t>(1, part.size());
  while (axes < part.size()) {
    const std::size_t inner = part.size() - axes;
    if (part[inner] != a[inner] || part[inner] != b[inner]) break;
    ++axes;
  }
  return axes;
}

/// Moves `point` to the next one of the first `axes` axes of `box`; false after the last.
bool advance(std::vector<int64_t>& point, const Box& box, std::size_t axes) {
  for (std::size_t axis = axes; axis-- > 0;) {
    if (++point[axis] < box[axis].end) return true;
    point[axis] = box[axis].begin;
  }
  return false;
}

int64_t copy_box(const Box& part, const View& from, const std::byte* from_bytes, const View& to, std::byte* to_bytes,
                 std::size_t element_size) {
  const std::size_t outer = part.size() - contiguous_axes(part, from.box, to.box);
  std::vector<int64_t> point(part.size());
  for (std::size_t axis = 0; axis < part.size(); ++axis) point[axis] = part[axis].begin;
  std::size_t run = element_size;
  for (std::size_t axis = outer; axis < part.size(); ++axis) run *= static_cast<std::size_t>(part[axis].size());
  do {
    std::memcpy(to_bytes + to.offset(point) * element_size, from_bytes + from.offset(point) * element_size, run);
  } while (advance(point, part, outer));
  return element_count(part);
}

bool overlap(const std::vector<Box>& a, const std::vector<Box>& b) {
  for (const Box& x : a) {
    for (const Box& y : b) {
      if (!is_empty(intersect(x, y))) return true;
    }
  }
  return false;
}

}  // namespace

TensorSlice flat_slice(std::string name, base::DType dtype, std::vector<int64_t> shape, Range flat) {
  TensorSlice slice{std::move(name), dtype, std::move(shape), {}, flat};
  for (const int64_t size : slice.global_shape) slice.box.push_back({0, size});
  return slice;
}

TensorSlice whole_slice(std::string name, base::DType dtype, std::vector<int64_t> shape) {
  const int64_t count = element_count(shape, name);
  return flat_slice(std::move(name), dtype, std::move(shape), {0, count});
}

int64_t element_count(std::span<const int64_t> shape, const std::string& where) {
  if (shape.size() > kMaxAxes) throw base::OutputError("{}: {} axes, at most {}", where, shape.size(), kMaxAxes);
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) throw base::OutputError("{}: negative size {} in its shape", where, size);
    // This holds for empty tensors too, since products of their other sizes are strides.
    if (count > kMaxElements / std::max<int64_t>(size, 1)) throw base::OutputError("{}: its shape is too large", where);
    count *= std::max<int64_t>(size, 1);
    empty = empty || size == 0;
  }
  return empty ? 0 : count;
}

int64_t element_count(const Box& box) {
  int64_t count = 1;
  for (const Range range : box) count *= range.size();
  return count;
}

int64_t byte_count(const TensorSlice& slice) {
  return slice.flat.size() * static_cast<int64_t>(base::size_of(slice.dtype));
}

void validate(const TensorSlice& slice) {
  element_count(slice.global_shape, slice.name);
  if (slice.box.size() != slice.global_shape.size()) {
    throw base::OutputError("tensor '{}': a slice has {} axes, wanted {}", slice.name, slice.box.size(),
                            slice.global_shape.size());
  }
  for (std::size_t axis = 0; axis < slice.box.size(); ++axis) {
    const Range range = slice.box[axis];
    if (range.begin >= 0 && range.begin <= range.end && range.end <= slice.global_shape[axis]) continue;
    throw base::OutputError("tensor '{}': a slice takes [{}, {}) of axis {}, which has size {}", slice.name,
                            range.begin, range.end, axis, slice.global_shape[axis]);
  }
  const int64_t count = element_count(slice.box);
  if (slice.flat.begin < 0 || slice.flat.begin > slice.flat.end || slice.flat.end > count) {
    throw base::OutputError("tensor '{}': a slice takes elements [{}, {}) of a box of {}", slice.name, slice.flat.begin,
                            slice.flat.end, count);
  }
}

std::vector<Box> boxes_of(const TensorSlice& slice) {
  std::vector<Box> boxes;
  Box head;
  append_boxes(slice.box, strides_of(slice.box), head, slice.flat, boxes);
  return boxes;
}

int64_t copy_intersection(const TensorSlice& from, std::span<const std::byte> from_bytes, const TensorSlice& to,
                          std::span<std::byte> to_bytes) {
  if (from.name != to.name || from.dtype != to.dtype || from.global_shape != to.global_shape) {
    throw base::OutputError("tensor '{}' of {} cannot be read as tensor '{}' of {}, or their shapes differ", from.name,
                            base::safetensors_name(from.dtype), to.name, base::safetensors_name(to.dtype));
  }
  validate(from);
  validate(to);
  DDPM_CHECK(std::ssize(from_bytes) == byte_count(from) && std::ssize(to_bytes) == byte_count(to),
             "tensor '{}': {} and {} bytes for slices of {} and {}", from.name, from_bytes.size(), to_bytes.size(),
             byte_count(from), byte_count(to));
  const View from_view(from);
  const View to_view(to);
  const std::size_t element_size = base::size_of(from.dtype);
  const std::vector<Box> to_boxes = boxes_of(to);
  int64_t copied = 0;
  for (const Box& a : boxes_of(from)) {
    for (const Box& b : to_boxes) {
      const Box part = intersect(a, b);
      if (is_empty(part)) continue;
      copied += copy_box(part, from_view, from_bytes.data(), to_view, to_bytes.data(), element_size);
    }
  }
  return copied;
}

bool overlap(const TensorSlice& a, const TensorSlice& b) {
  if (a.box == b.box) return !layout::intersect(a.flat, b.flat).empty();
  return overlap(boxes_of(a), boxes_of(b));
}

}  // namespace ddpm::checkpoint
