// Every answer is compared with one that goes through the tensor element by element.
#include "checkpoint/slice.h"

#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::checkpoint {
namespace {

using layout::Range;

/// Global row-major indices of a slice's elements, in its order.
std::vector<int64_t> elements_of(const TensorSlice& slice) {
  std::vector<int64_t> all = {0};
  for (std::size_t axis = 0; axis < slice.box.size(); ++axis) {
    std::vector<int64_t> next;
    for (const int64_t outer : all) {
      for (int64_t i = slice.box[axis].begin; i < slice.box[axis].end; ++i) {
        next.push_back(outer * slice.global_shape[axis] + i);
      }
    }
    all = std::move(next);
  }
  return {all.begin() + slice.flat.begin, all.begin() + slice.flat.end};
}

class Slices : public testing::Test {
 protected:
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(generator_); }
  /// Whole every other time, so that boxes of many axes are not nearly always empty.
  Range range(int64_t size) {
    if (below(2) == 0) return {0, size};
    const int64_t a = below(size + 1);
    const int64_t b = below(size + 1);
    return {std::min(a, b), std::max(a, b)};
  }
  TensorSlice slice(const std::vector<int64_t>& shape) {
    TensorSlice slice{"weight", base::DType::i64, shape, {}, {}};
    for (const int64_t size : shape) slice.box.push_back(range(size));
    slice.flat = range(element_count(slice.box));
    return slice;
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> shape(static_cast<std::size_t>(below(5)));
    for (int64_t& size : shape) size = 1 + below(5);
    return shape;
  }

  std::mt19937_64 generator_{20};
};

TEST_F(Slices, CopyExactlyWhatTheyShare) {
  int64_t copied = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::vector<int64_t> shape = this->shape();
    const TensorSlice from = slice(shape);
    const TensorSlice to = slice(shape);
    const std::vector<int64_t> source = elements_of(from);
    std::vector<int64_t> target(static_cast<std::size_t>(to.flat.size()), -1);
    const int64_t count =
        copy_intersection(from, std::as_bytes(std::span(source)), to, std::as_writable_bytes(std::span(target)));

    const std::set<int64_t> shared(source.begin(), source.end());
    std::vector<int64_t> wanted = elements_of(to);
    for (int64_t& element : wanted) element = shared.contains(element) ? element : -1;
    ASSERT_EQ(target, wanted) << "trial " << trial;
    ASSERT_EQ(count, std::count_if(wanted.begin(), wanted.end(), [](int64_t e) { return e >= 0; }));
    ASSERT_EQ(overlap(from, to), count > 0);
    copied += count;
  }
  EXPECT_GT(copied, 3000);  // the trials did overlap
}

TEST_F(Slices, SplitIntoFewBoxesInOrder) {
  for (int trial = 0; trial < 2000; ++trial) {
    const TensorSlice whole = slice(shape());
    std::vector<int64_t> elements;
    const std::vector<Box> boxes = boxes_of(whole);
    for (const Box& box : boxes) {
      const auto part = elements_of({whole.name, whole.dtype, whole.global_shape, box, {0, element_count(box)}});
      elements.insert(elements.end(), part.begin(), part.end());
    }
    ASSERT_EQ(elements, elements_of(whole)) << "trial " << trial;
    ASSERT_LE(boxes.size(), std::max<std::size_t>(1, 2 * whole.box.size()));
  }
}

TEST_F(Slices, OfNarrowDtypesCopyWholeElements) {
  const std::vector<uint16_t> source = {10, 11, 12, 13, 14};
  std::vector<uint16_t> target(4);
  const auto from = flat_slice("w", base::DType::bf16, {2, 3}, {1, 6});
  const auto to = flat_slice("w", base::DType::bf16, {2, 3}, {2, 6});
  EXPECT_EQ(copy_intersection(from, std::as_bytes(std::span(source)), to, std::as_writable_bytes(std::span(target))),
            4);
  EXPECT_THAT(target, testing::ElementsAre(11, 12, 13, 14));
}

TEST(SliceChecks, RefuseWhatLiesOutside) {
  TensorSlice slice = whole_slice("w", base::DType::f32, {4, 3});
  EXPECT_NO_THROW(validate(slice));
  for (const Range bad : {Range{-1, 3}, Range{0, 5}, Range{3, 2}}) {
    TensorSlice wrong = slice;
    wrong.box[0] = bad;
    EXPECT_THROW(validate(wrong), base::OutputError) << bad.begin << " " << bad.end;
  }
  for (const Range bad : {Range{-1, 3}, Range{0, 13}, Range{5, 4}}) {
    TensorSlice wrong = slice;
    wrong.flat = bad;
    EXPECT_THROW(validate(wrong), base::OutputError) << bad.begin << " " << bad.end;
  }
  slice.box.pop_back();
  EXPECT_THROW(validate(slice), base::OutputError);
}

TEST(SliceChecks, RefuseShapesThatOverflow) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_THROW(whole_slice("w", base::DType::u8, {huge, huge}), base::OutputError);
  EXPECT_THROW(whole_slice("w", base::DType::u8, {std::numeric_limits<int64_t>::max()}), base::OutputError);
  EXPECT_THROW(whole_slice("w", base::DType::u8, {2, -1}), base::OutputError);
  EXPECT_EQ(byte_count(whole_slice("w", base::DType::f64, {huge, 0})), 0);
}

TEST(SliceChecks, RefuseToCopyBetweenDifferentTensors) {
  const std::vector<float> source(6);
  std::vector<float> target(6);
  const auto from = whole_slice("w", base::DType::f32, {2, 3});
  for (const auto& to : {whole_slice("v", base::DType::f32, {2, 3}), whole_slice("w", base::DType::i32, {2, 3}),
                         whole_slice("w", base::DType::f32, {3, 2})}) {
    EXPECT_THROW(
        copy_intersection(from, std::as_bytes(std::span(source)), to, std::as_writable_bytes(std::span(target))),
        base::OutputError);
  }
}

TEST_F(Slices, CoverIsExactOnlyWithEachElementOnce) {
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<int64_t> shape = this->shape();
    std::vector<TensorSlice> slices;
    // Random cuts of an axis into boxes, each cut into flat ranges: an exact cover; then perhaps spoilt.
    std::vector<Range> rows = {{0, 1}};
    if (!shape.empty()) {
      const int64_t cut = below(shape[0] + 1);
      rows = {{0, cut}, {cut, shape[0]}};
    }
    for (const Range row : rows) {
      TensorSlice part = whole_slice("w", base::DType::f32, shape);
      if (!shape.empty()) part.box[0] = row;
      const int64_t count = element_count(part.box);
      const int64_t cut = below(count + 1);
      part.flat = {0, cut};
      slices.push_back(part);
      part.flat = {cut, count};
      slices.push_back(part);
    }
    ASSERT_NO_THROW(check_exact_cover("w", shape, slices));
    const TensorSlice extra = slice(shape);
    slices.push_back({"w", base::DType::f32, shape, extra.box, extra.flat});
    std::swap(slices.back(), slices[static_cast<std::size_t>(below(std::ssize(slices)))]);
    if (below(2) == 0) slices.pop_back();
    std::multiset<int64_t> seen;
    for (const TensorSlice& one : slices) {
      for (const int64_t element : elements_of(one)) seen.insert(element);
    }
    std::vector<int64_t> all(static_cast<std::size_t>(element_count(shape, "w")));
    std::iota(all.begin(), all.end(), 0);
    if (std::equal(seen.begin(), seen.end(), all.begin(), all.end())) {
      ASSERT_NO_THROW(check_exact_cover("w", shape, slices)) << "trial " << trial;
    } else {
      ASSERT_THROW(check_exact_cover("w", shape, slices), base::OutputError) << "trial " << trial;
    }
  }
}

TEST(SliceSizes, AnEmptyTensorMayNotBeWideEnoughToOverflowItsStrides) {
  const std::vector<int64_t> wide = {0, int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THROW(element_count(wide, "weight"), base::OutputError);
  EXPECT_EQ(element_count(std::vector<int64_t>{0, 1 << 20}, "weight"), 0);
}

TEST(SliceSizes, AxesAreLimited) {
  EXPECT_EQ(element_count(std::vector<int64_t>(kMaxAxes, 1), "weight"), 1);
  EXPECT_THROW(element_count(std::vector<int64_t>(kMaxAxes + 1, 1), "weight"), base::OutputError);
}

/// Boxes [i, i + 1) of the rows of a tensor.
std::vector<TensorSlice> rows_of(int64_t rows, int64_t columns) {
  std::vector<TensorSlice> all;
  for (int64_t i = 0; i < rows; ++i) {
    all.push_back({"w", base::DType::f32, {rows, columns}, {{i, i + 1}, {0, columns}}, {0, columns}});
  }
  return all;
}

// Compared in pairs, these would take hours: the test would end at its time limit.
TEST(SliceCover, OfManyBoxesIsChecked) {
  constexpr int64_t kRows = 400'000;
  std::vector<TensorSlice> rows = rows_of(kRows, 3);
  EXPECT_NO_THROW(check_exact_cover("w", std::vector<int64_t>{kRows, 3}, rows));
  rows[7].box[0] = rows[kRows - 9].box[0];
  EXPECT_THROW(check_exact_cover("w", std::vector<int64_t>{kRows, 3}, rows), base::OutputError);
}

TEST(SliceCover, OfManySlicesOfTwoBoxesThatIntersectIsChecked) {
  constexpr int64_t kSlices = 200'000;
  const std::vector<int64_t> shape = {2 * kSlices};
  std::vector<TensorSlice> slices;
  for (int64_t i = 0; i < kSlices; ++i) {
    slices.push_back({"w", base::DType::f32, shape, {{0, 2 * kSlices}}, {i, i + 1}});
    slices.push_back({"w", base::DType::f32, shape, {{1, 2 * kSlices}}, {kSlices - 1 + i, kSlices + i}});
  }
  EXPECT_NO_THROW(check_exact_cover("w", shape, slices));  // the boxes share elements, the slices none
  slices.back().flat = {kSlices - 1, kSlices};
  EXPECT_THROW(check_exact_cover("w", shape, slices), base::OutputError);
}

TEST(SliceCover, WithAsManyElementsAsTheTensorIsRefusedWhereOneIsTwiceAndAnotherMissing) {
  const std::vector<int64_t> shape(kMaxAxes, 2);
  for (int64_t twice = 0; twice < 1 << kMaxAxes; twice += 4099) {
    for (const int64_t missing : {twice ^ 1, twice ^ (1 << (kMaxAxes - 1)), (1 << kMaxAxes) - 1 - twice}) {
      const std::vector<TensorSlice> slices = {flat_slice("w", base::DType::f32, shape, {0, missing}),
                                               flat_slice("w", base::DType::f32, shape, {missing + 1, 1 << kMaxAxes}),
                                               flat_slice("w", base::DType::f32, shape, {twice, twice + 1})};
      ASSERT_THROW(check_exact_cover("w", shape, slices), base::OutputError) << twice << " " << missing;
    }
  }
}

}  // namespace
}  // namespace ddpm::checkpoint
