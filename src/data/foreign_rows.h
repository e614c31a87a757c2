// Inside src/data: rows that are composed of variables of a foreign file, and decoded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/decoding.h"
#include "data/rows.h"
#include "h5/file.h"

namespace ddpm::data {

/// What an axis of an array is to the rows.
struct AxisUse {
  enum class Kind : uint8_t {
    sample,   ///< each place belongs to other rows
    side,     ///< a side of the image, such as its height
    channel,  ///< each place is a channel
    chosen,   ///< one place is taken
  };
  Kind kind = Kind::channel;
  int64_t number = 0;  ///< which sample axis or side it is; for `chosen`, the place that is taken
};

/// An array and the channels that it gives. A side or sample axis that it lacks has its values everywhere.
struct ForeignPart {
  h5::Array array;
  Decoding decoding;
  std::vector<AxisUse> uses;  ///< one for each axis of the array
  int64_t rows = 0;           ///< extent of its first axis: rows that the file does not store have its fill value
  int64_t channels = 1;
};

/// A loop of a copy: how far source and target go on at each turn.
struct Loop {
  int64_t turns = 1;
  int64_t from_step = 0;
  int64_t to_step = 0;
};

/// What is read along an axis.
struct AxisRange {
  int64_t begin = 0;
  int64_t extent = 1;
};

class ForeignRows : public Rows {
 public:
  struct Form {
    std::string label;
    std::vector<int64_t> samples;  ///< places along each sample axis, the last one fastest; none: there is one row
    int64_t pairs = 0;             ///< so many places of the last one are no rows, unless set_starts() says which are
    int64_t lead = 0;              ///< row t takes place t + lead there: 0, or `pairs`
    std::vector<int64_t> sides;
    /// u8: masks, whose values are 0 and 1; i64: labels, whole numbers. Both are without an axis of channels.
    base::DType dtype = base::DType::f32;
    std::string advice = {};  ///< what else may be wanted where values are missing
  };
  ForeignRows(std::vector<ForeignPart> parts, Form form);

  [[nodiscard]] const std::string& label() const override { return form_.label; }
  [[nodiscard]] int64_t rows() const override { return rows_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const override { return shape_; }
  [[nodiscard]] base::DType dtype() const override { return form_.dtype; }
  [[nodiscard]] uint64_t chunk_bytes() const override;
  [[nodiscard]] std::string advice() const override { return form_.advice; }
  void read_rows(int64_t first, int64_t n, std::span<std::byte> out) const override;
  void read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                   std::span<std::byte> out) const override;

  /// Places of this file along the last sample axis.
  [[nodiscard]] int64_t places() const { return form_.samples.back(); }
  [[nodiscard]] bool is_along_one_axis() const { return form_.samples.size() == 1; }
  /// Has places beyond the last one be those of `next`, which lies in another file and outlives these; they are along
  /// one axis.
  void go_on_with(const ForeignRows& next) { next_ = &next; }
  /// Sets at which places of the last sample axis, in rising order, there are rows.
  void set_starts(std::vector<int64_t> starts);

 private:
  /// Rows that follow each other along the last sample axis, or a part of each.
  struct Box {
    std::vector<int64_t> place;  // where the first row lies along each sample axis
    int64_t rows = 1;
    std::vector<int64_t> begin;  // along each side
    std::vector<int64_t> extent;
  };
  /// Where a row lies.
  struct Origin {
    const ForeignRows* rows;     // those whose file has the row: these, or those that they go on with
    std::vector<int64_t> place;  // where it lies in that file, along each sample axis
    int64_t together = 1;        // how many rows, from this one on, follow each other there
  };
  [[nodiscard]] Origin origin_of(int64_t row, int64_t most) const;
  [[nodiscard]] bool is_along_rows(const AxisUse& use) const;
  [[nodiscard]] AxisRange range_of(const AxisUse& use, int64_t array_extent, const Box& box) const;
  [[nodiscard]] std::vector<Loop> loops_of(const ForeignPart& part, std::span<const int64_t> extent,
                                           const Box& box) const;
  void read_box(const Box& box, std::span<std::byte> out) const;
  void store_masks(std::span<const float> values, std::span<std::byte> out) const;
  void store_labels(std::span<const float> values, const Box& box, std::span<std::byte> out) const;
  void read_part(const ForeignPart& part, int64_t first_channel, const Box& box, std::span<float> out) const;

  std::vector<ForeignPart> parts_;
  Form form_;
  std::vector<int64_t> shape_;
  int64_t channels_ = 0;
  std::vector<int64_t> rows_along_;  // each sample axis
  std::vector<int64_t> starts_;      // places of the last one with rows; empty: all places from the first one on
  int64_t rows_ = 1;
  const ForeignRows* next_ = nullptr;
};

/// 1 where no channel of an image is missing, 0 elsewhere.
class MissingMask : public Rows {
 public:
  /// `images` outlives it.
  MissingMask(const Rows& images, std::string label);

  [[nodiscard]] const std::string& label() const override { return label_; }
  [[nodiscard]] int64_t rows() const override { return images_.rows(); }
  [[nodiscard]] const std::vector<int64_t>& shape() const override { return shape_; }
  [[nodiscard]] base::DType dtype() const override { return base::DType::u8; }
  [[nodiscard]] uint64_t chunk_bytes() const override { return images_.chunk_bytes(); }
  void read_rows(int64_t first, int64_t n, std::span<std::byte> out) const override;
  void read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                   std::span<std::byte> out) const override;

 private:
  void turn(std::span<const float> values, std::span<std::byte> out) const;

  const Rows& images_;
  std::string label_;
  std::vector<int64_t> shape_;
};

}  // namespace ddpm::data
