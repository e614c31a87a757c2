// Inside src/data: where the values of a field come from, image by image. Whoever reads rows need not know how they are
// stored: one array of a file as it lies there, or several that are composed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "h5/file.h"

namespace ddpm::data {

/// Copies the window at `begin` of an array of `shape`; axes beyond those of `begin` are whole. What reaches beyond the
/// end of an axis goes on at its beginning.
void copy_window(std::span<const std::byte> from, std::span<const int64_t> shape, std::span<const int64_t> begin,
                 std::span<const int64_t> extent, std::span<std::byte> out);

class Rows {
 public:
  virtual ~Rows() = default;
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  /// "FILE:/name", for messages.
  [[nodiscard]] virtual const std::string& label() const = 0;
  [[nodiscard]] virtual int64_t rows() const = 0;
  /// The shape of one row as it is given out: of images [(depth,) height, width, channels].
  [[nodiscard]] virtual const std::vector<int64_t>& shape() const = 0;
  /// The type of the values that are given out.
  [[nodiscard]] virtual base::DType dtype() const = 0;
  /// Bytes of the largest chunk that is unpacked for a row; 0 where nothing is stored in chunks.
  [[nodiscard]] virtual uint64_t chunk_bytes() const = 0;

  /// Rows [first, first + n), which `out` holds exactly. From any thread; needs no other rank.
  virtual void read_rows(int64_t first, int64_t n, std::span<std::byte> out) const = 0;
  /// A window of one row: `begin` and `extent` along its first axes, all of the others, such as the channels. What
  /// reaches beyond the end of an axis goes on at its beginning.
  virtual void read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                           std::span<std::byte> out) const;
  /// Throws DatasetAccessError when the machine cannot read these rows just now, where reading them would not say so.
  virtual void expect_readable(int64_t /*first*/, int64_t /*n*/) const {}
  /// What else may be wanted where a value is not finite: the end of a message, or "".
  [[nodiscard]] virtual std::string advice() const { return {}; }

  [[nodiscard]] std::size_t row_bytes() const;
};

/// Zeros that stand for rows which a file does not have, where nobody looks at them.
class AbsentRows : public Rows {
 public:
  AbsentRows(std::string label, std::vector<int64_t> shape, int64_t rows);

  [[nodiscard]] const std::string& label() const override { return label_; }
  [[nodiscard]] int64_t rows() const override { return rows_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const override { return shape_; }
  [[nodiscard]] base::DType dtype() const override { return base::DType::f32; }
  [[nodiscard]] uint64_t chunk_bytes() const override { return 0; }
  void read_rows(int64_t first, int64_t n, std::span<std::byte> out) const override;
  void read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                   std::span<std::byte> out) const override;

 private:
  std::string label_;
  std::vector<int64_t> shape_;
  int64_t rows_;
};

/// One array of a file, as it is stored but for the order of its axes.
class StoredRows : public Rows {
 public:
  struct Form {
    std::vector<int64_t> shape;   ///< shape of one row as it is given out
    base::DType dtype;            ///< i64: the array may hold any integers
    bool per_set = false;         ///< the whole array is the one row
    bool channels_first = false;  ///< stored as [channels, height, width], or of volumes [channels, depth, ...]
  };
  StoredRows(h5::Array array, base::Path file, Form form);

  [[nodiscard]] const std::string& label() const override { return array_.label(); }
  [[nodiscard]] int64_t rows() const override { return form_.per_set ? 1 : array_.rows(); }
  [[nodiscard]] const std::vector<int64_t>& shape() const override { return form_.shape; }
  [[nodiscard]] base::DType dtype() const override { return form_.dtype; }
  [[nodiscard]] uint64_t chunk_bytes() const override { return array_.chunk_bytes(); }
  void read_rows(int64_t first, int64_t n, std::span<std::byte> out) const override;
  void read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                   std::span<std::byte> out) const override;
  void expect_readable(int64_t first, int64_t n) const override;

 private:
  void read_stored(int64_t first, int64_t n, std::span<std::byte> out) const;

  h5::Array array_;
  base::Path file_;
  Form form_;
};

}  // namespace ddpm::data
