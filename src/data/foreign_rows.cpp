#include "data/foreign_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/product.h"

namespace ddpm::data {
namespace {

using Kind = AxisUse::Kind;

/// Rows are read together up to so many bytes of them.
constexpr int64_t kTogetherBytes = int64_t{32} << 20;

/// The last loop runs fastest.
void copy(std::span<const Loop> loops, const float* from, float* to) {
  const Loop& loop = loops.front();
  if (loops.size() > 1) {
    for (int64_t i = 0; i < loop.turns; ++i) copy(loops.subspan(1), from + i * loop.from_step, to + i * loop.to_step);
    return;
  }
  if (loop.from_step == 1 && loop.to_step == 1) {
    std::copy_n(from, loop.turns, to);
    return;
  }
  for (int64_t i = 0; i < loop.turns; ++i) to[i * loop.to_step] = from[i * loop.from_step];
}

/// The box of an array along each of its axes.
struct ArrayBox {
  std::vector<int64_t> begin;
  std::vector<int64_t> extent;
};

/// Reads a box of the array; along each axis it may go around. Rows that the file does not store have the fill value.
/// Parts of rows of an array without chunks are read in bands, for each of which there is a list of the runs of bytes
/// that it is made of.
std::vector<std::byte> read_stored(const ForeignPart& part, ArrayBox box) {
  constexpr int64_t kBandBytes = int64_t{4} << 20;
  const h5::Array& array = part.array;
  std::vector<std::byte> stored(static_cast<std::size_t>(base::product_of(box.extent)) * part.decoding.element_bytes());
  const bool whole = std::equal(box.extent.begin() + 1, box.extent.end(), array.shape().begin() + 1) &&
                     std::all_of(box.begin.begin() + 1, box.begin.end(), [](int64_t at) { return at == 0; });
  const int64_t rows = box.extent.front();
  const int64_t first = box.begin.front();
  const int64_t row_bytes = std::ssize(stored) / rows;
  const bool in_bands = !whole && array.chunk_bytes() == 0;
  const int64_t most = in_bands ? std::max<int64_t>(kBandBytes / row_bytes, 1) : rows;
  for (int64_t done = 0; done < rows; done += box.extent.front()) {
    const int64_t place = (first + done) % part.rows;
    const bool is_stored = place < array.rows();
    box.begin.front() = place;
    box.extent.front() = std::min({rows - done, (is_stored ? array.rows() : part.rows) - place, most});
    const std::span<std::byte> out = std::span(stored).subspan(
        static_cast<std::size_t>(done * row_bytes), static_cast<std::size_t>(box.extent.front() * row_bytes));
    if (!is_stored) {
      array.fill(out);
    } else if (whole) {
      array.read_rows(place, box.extent.front(), out);
    } else {
      array.read_windows(box.begin, box.extent, out);
    }
  }
  return stored;
}

}  // namespace

ForeignRows::ForeignRows(std::vector<ForeignPart> parts, Form form)
    : parts_(std::move(parts)), form_(std::move(form)), shape_(form_.sides), rows_along_(form_.samples) {
  if (!rows_along_.empty()) rows_along_.back() = std::max<int64_t>(0, rows_along_.back() - form_.pairs);
  rows_ = base::product_of(rows_along_);
  for (const ForeignPart& part : parts_) channels_ += part.channels;
  if (form_.dtype == base::DType::f32) shape_.push_back(channels_);
}

uint64_t ForeignRows::chunk_bytes() const {
  uint64_t most = 0;
  for (const ForeignPart& part : parts_) most = std::max(most, part.array.chunk_bytes());
  return most;
}

void ForeignRows::set_starts(std::vector<int64_t> starts) {
  rows_along_.back() = std::ssize(starts);
  rows_ = base::product_of(rows_along_);
  const bool all = starts.empty() || starts.back() + 1 == std::ssize(starts);
  starts_ = all ? std::vector<int64_t>() : std::move(starts);
}

ForeignRows::Origin ForeignRows::origin_of(int64_t row, int64_t most) const {
  Origin origin{.rows = this, .place = std::vector<int64_t>(form_.samples.size())};
  if (origin.place.empty()) return origin;
  for (std::size_t axis = origin.place.size(); axis-- > 0;) {
    origin.place[axis] = row % rows_along_[axis];
    row /= rows_along_[axis];
  }
  int64_t& last = origin.place.back();
  int64_t together = std::min(most, rows_along_.back() - last);
  if (!starts_.empty()) {
    const auto from = starts_.begin() + last;
    last = *from;
    const auto apart = [](int64_t a, int64_t b) { return b != a + 1; };
    const auto end = std::adjacent_find(from, from + together, apart);
    if (end != from + together) together = end - from + 1;
  }
  while (origin.rows->next_ != nullptr && last + form_.lead >= origin.rows->places()) {
    last -= origin.rows->places();  // a place before the first one, if the lead is longer than this file
    origin.rows = origin.rows->next_;
  }
  origin.together = std::min(together, origin.rows->places() - form_.lead - last);
  return origin;
}

void ForeignRows::read_rows(int64_t first, int64_t n, std::span<std::byte> out) const {
  const int64_t most = std::max<int64_t>(1, kTogetherBytes / static_cast<int64_t>(row_bytes()));
  while (n > 0) {
    const Origin from = origin_of(first, std::min(n, most));
    const Box box{.place = from.place,
                  .rows = from.together,
                  .begin = std::vector<int64_t>(form_.sides.size(), 0),
                  .extent = form_.sides};
    const std::size_t bytes = static_cast<std::size_t>(box.rows) * row_bytes();
    from.rows->read_box(box, out.first(bytes));
    out = out.subspan(bytes);
    first += box.rows;
    n -= box.rows;
  }
}

void ForeignRows::read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                              std::span<std::byte> out) const {
  const Origin from = origin_of(row, 1);
  from.rows->read_box(
      {.place = from.place, .begin = {begin.begin(), begin.end()}, .extent = {extent.begin(), extent.end()}}, out);
}

void ForeignRows::read_box(const Box& box, std::span<std::byte> out) const {
  std::vector<float> values(static_cast<std::size_t>(box.rows * base::product_of(box.extent) * channels_));
  int64_t channel = 0;
  for (const ForeignPart& part : parts_) {
    read_part(part, channel, box, values);
    channel += part.channels;
  }
  if (form_.dtype == base::DType::f32) {
    DDPM_CHECK(out.size() == values.size() * sizeof(float), "{} bytes for {} values", out.size(), values.size());
    std::memcpy(out.data(), values.data(), out.size());
    return;
  }
  if (form_.dtype == base::DType::i64) return store_labels(values, box, out);
  store_masks(values, out);
}

void ForeignRows::store_masks(std::span<const float> values, std::span<std::byte> out) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0.0F && values[i] != 1.0F) {
      throw base::DatasetError("{}: a mask holds {}; 0 and 1 are wanted", form_.label, values[i]);
    }
    out[i] = static_cast<std::byte>(values[i] == 1.0F);
  }
}

/// Values are read as float32, which holds whole numbers below 2^24 exactly.
void ForeignRows::store_labels(std::span<const float> values, const Box& box, std::span<std::byte> out) const {
  constexpr float kPastEnd = 16777216.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= 0.0F) || values[i] >= kPastEnd) {
      const int64_t place = box.place.back() + form_.lead + static_cast<int64_t>(i);
      throw base::DatasetError("{}: the label at place {} along the last sample axis {}; 0 to {} is wanted",
                               form_.label, place,
                               std::isnan(values[i]) ? "is missing" : fmt::format("is {}", values[i]), kPastEnd - 1.0F);
    }
    const auto label = static_cast<int64_t>(values[i]);
    std::memcpy(&out[i * sizeof(label)], &label, sizeof(label));
  }
}

bool ForeignRows::is_along_rows(const AxisUse& use) const {
  return use.kind == Kind::sample && use.number + 1 == std::ssize(form_.samples);
}

/// What is read of an axis of an array.
AxisRange ForeignRows::range_of(const AxisUse& use, int64_t array_extent, const Box& box) const {
  const auto number = static_cast<std::size_t>(use.number);
  switch (use.kind) {
    case Kind::sample:
      return is_along_rows(use) ? AxisRange{box.place[number] + form_.lead, box.rows} : AxisRange{box.place[number], 1};
    case Kind::side:
      return {box.begin[number], box.extent[number]};
    case Kind::chosen:
      return {use.number, 1};
    case Kind::channel:
      return {0, array_extent};
  }
  throw base::InternalError("use of an axis {}", static_cast<int>(use.kind));
}

void ForeignRows::read_part(const ForeignPart& part, int64_t first_channel, const Box& box,
                            std::span<float> out) const {
  ArrayBox along;
  for (std::size_t axis = 0; axis < part.uses.size(); ++axis) {
    const AxisRange range = range_of(part.uses[axis], axis == 0 ? part.rows : part.array.shape()[axis], box);
    along.begin.push_back(range.begin);
    along.extent.push_back(range.extent);
  }
  std::vector<float> values(static_cast<std::size_t>(base::product_of(along.extent)));
  part.decoding.decode(read_stored(part, along), values);
  copy(loops_of(part, along.extent, box), values.data(), out.data() + first_channel);
}

/// The loops are those of the target: channels, rows, sides. An axis that the array lacks has it read the same again.
std::vector<Loop> ForeignRows::loops_of(const ForeignPart& part, std::span<const int64_t> extent,
                                        const Box& box) const {
  std::vector<Loop> sides(box.extent.size());
  int64_t to_step = channels_;
  for (std::size_t side = sides.size(); side-- > 0;) {
    sides[side] = {.turns = box.extent[side], .to_step = to_step};
    to_step *= box.extent[side];
  }
  Loop rows{.turns = box.rows, .to_step = to_step};
  std::vector<Loop> loops;
  int64_t from_step = 1;
  int64_t channel_step = 1;
  for (std::size_t axis = part.uses.size(); axis-- > 0;) {
    const AxisUse& use = part.uses[axis];
    if (use.kind == Kind::side) sides[static_cast<std::size_t>(use.number)].from_step = from_step;
    if (is_along_rows(use)) rows.from_step = from_step;
    if (use.kind == Kind::channel) {
      loops.insert(loops.begin(), {.turns = extent[axis], .from_step = from_step, .to_step = channel_step});
      channel_step *= extent[axis];
    }
    from_step *= extent[axis];
  }
  loops.push_back(rows);
  loops.insert(loops.end(), sides.begin(), sides.end());
  return loops;
}

MissingMask::MissingMask(const Rows& images, std::string label)
    : images_(images), label_(std::move(label)), shape_(images.shape().begin(), images.shape().end() - 1) {}

void MissingMask::turn(std::span<const float> values, std::span<std::byte> out) const {
  const auto channels = static_cast<std::size_t>(images_.shape().back());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto pixel = values.subspan(i * channels, channels);
    out[i] = static_cast<std::byte>(std::ranges::none_of(pixel, [](float value) { return std::isnan(value); }));
  }
}

void MissingMask::read_rows(int64_t first, int64_t n, std::span<std::byte> out) const {
  std::vector<float> values(static_cast<std::size_t>(n) * images_.row_bytes() / sizeof(float));
  images_.read_rows(first, n, std::as_writable_bytes(std::span(values)));
  turn(values, out);
}

void MissingMask::read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                              std::span<std::byte> out) const {
  std::vector<float> values(out.size() * static_cast<std::size_t>(images_.shape().back()));
  images_.read_window(row, begin, extent, std::as_writable_bytes(std::span(values)));
  turn(values, out);
}

}  // namespace ddpm::data
