// Every row of one table against every row of another, in blocks of rows that the ranks share.
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "layout/range.h"

namespace ddpm::eval {

/// Rows of a block. A block holds the same rows on any number of ranks, so that its products have the same bits.
inline constexpr int64_t kRowBlock = 512;

/// Squared Euclidean distances of the rows of `x` [n, D] and `y` [m, D], both float64: [n, m], nowhere below 0.
at::Tensor squared_distances(const at::Tensor& x, const at::Tensor& y);

/// Deals blocks of `rows` rows to the ranks. `work` answers float64 [block, width] for a block's rows, and makes no
/// collective call. Returns all of it, [rows, width], on every rank. Collective.
at::Tensor by_row_blocks(comm::Communicator& world, int64_t rows, int64_t width,
                         const std::function<at::Tensor(layout::Range rows)>& work);

}  // namespace ddpm::eval
