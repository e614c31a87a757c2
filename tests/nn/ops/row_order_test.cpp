// Rows that are sorted, and what was computed of them on its way back.
#include "nn/ops/row_order.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace ddpm::nn::test {
namespace {

/// Rows of which some are alike.
at::Tensor some_rows_alike() {
  at::manual_seed(8);
  at::Tensor rows = at::randn({2, 100, 24});
  rows.slice(1, 10, 30).copy_(rows.slice(1, 50, 70));
  return rows;
}

TEST(RowOrder, ShuffledRowsAreSortedAlike) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor rows = some_rows_alike().to(dtype);
    const at::Tensor shuffle = at::argsort(at::rand({100}));
    const SortedRows of_rows = sort_rows(rows);
    const SortedRows of_shuffled = sort_rows(rows.index_select(1, shuffle));
    EXPECT_TRUE(at::equal(of_shuffled.rows, of_rows.rows)) << dtype;
    EXPECT_TRUE(at::equal(of_shuffled.places, of_rows.places.index_select(1, shuffle))) << dtype;
  }
}

TEST(RowOrder, RowsComeBack) {
  const at::Tensor rows = some_rows_alike();
  const SortedRows sorted = sort_rows(rows);
  EXPECT_FALSE(at::equal(sorted.rows, rows));
  EXPECT_TRUE(at::equal(at_former_places(sorted.rows, sorted.places), rows));
}

TEST(RowOrder, RowsThatAreAlikeGetTheSame) {
  const SortedRows sorted = sort_rows(some_rows_alike());
  const at::Tensor unlike = at::randn({2, 100, 5});  // as a product may make of equal rows in two places of a matrix
  const at::Tensor back = at_former_places(unlike, sorted.places);
  EXPECT_TRUE(at::equal(back.slice(1, 10, 30), back.slice(1, 50, 70)));
}

}  // namespace
}  // namespace ddpm::nn::test
