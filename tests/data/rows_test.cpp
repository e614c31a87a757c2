// Rows of a field, and windows of them.
#include "data/rows.h"

#include <cstring>

#include <gtest/gtest.h>

namespace ddpm::data {
namespace {

/// Row r holds the numbers 1000 r, 1000 r + 1 and so on.
class CountedRows : public Rows {
 public:
  explicit CountedRows(std::vector<int64_t> shape) : shape_(std::move(shape)) {}
  [[nodiscard]] const std::string& label() const override { return label_; }
  [[nodiscard]] int64_t rows() const override { return 3; }
  [[nodiscard]] const std::vector<int64_t>& shape() const override { return shape_; }
  [[nodiscard]] base::DType dtype() const override { return base::DType::f32; }
  [[nodiscard]] uint64_t chunk_bytes() const override { return 0; }
  void read_rows(int64_t first, int64_t n, std::span<std::byte> out) const override {
    ASSERT_EQ(out.size(), static_cast<std::size_t>(n) * row_bytes());
    std::vector<float> values(out.size() / sizeof(float));
    const std::size_t row = row_bytes() / sizeof(float);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(1000 * (first + static_cast<int64_t>(i / row)) + static_cast<int64_t>(i % row));
    }
    std::memcpy(out.data(), values.data(), out.size());
  }
  void expect_readable(int64_t /*first*/, int64_t /*n*/) const override {}

 private:
  std::string label_ = "counted";
  std::vector<int64_t> shape_;
};

std::vector<float> window(const Rows& rows, int64_t row, std::vector<int64_t> begin, std::vector<int64_t> extent) {
  std::size_t elements = static_cast<std::size_t>(rows.shape().back());
  for (const int64_t side : extent) elements *= static_cast<std::size_t>(side);
  std::vector<float> values(elements);
  rows.read_window(row, begin, extent, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(Rows, AWindowIsABoxOfARowWithAllChannels) {
  const CountedRows flat({3, 4, 2});
  EXPECT_EQ(flat.row_bytes(), 3 * 4 * 2 * sizeof(float));
  EXPECT_EQ(window(flat, 2, {1, 2}, {2, 1}), (std::vector<float>{2012, 2013, 2020, 2021}));
  EXPECT_EQ(window(flat, 0, {0, 0}, {3, 4}).back(), 23.0F);
  const CountedRows deep({2, 3, 4, 1});
  EXPECT_EQ(window(deep, 1, {0, 1, 3}, {2, 2, 1}), (std::vector<float>{1007, 1011, 1019, 1023}));
}

}  // namespace
}  // namespace ddpm::data
