// Pixels in an order that follows from their values alone: what is computed of them does not depend on where they lie.
//
// Products of matrices and sums over keys give a row other bits in another place of the matrix, or with its terms in
// another order. Of pixels that are sorted first, an image and the same image rolled are one matrix.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

struct SortedRows {
  at::Tensor rows;    ///< [N, L, C]: those of each image, sorted by their bytes
  at::Tensor places;  ///< [N, L]: where each of the rows has come to; of rows that are alike, the first of their places
};

/// `rows` is [N, L, C], on the CPU.
SortedRows sort_rows(const at::Tensor& rows);

/// What was computed of the sorted rows, [N, L, K], at the places that these had before. The inverse of sort_rows().
at::Tensor at_former_places(const at::Tensor& computed, const at::Tensor& places);

}  // namespace ddpm::nn
