#include "eval/manifold.h"

#include <limits>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>

#include "eval/pairwise.h"

namespace ddpm::eval {
namespace {

/// The squared distance of each feature to its k-th nearest other one, [n].
at::Tensor radii(comm::Communicator& world, const at::Tensor& x, int64_t neighbours) {
  const at::Tensor all = by_row_blocks(world, x.size(0), 1, [&](layout::Range rows) {
    at::Tensor squares = squared_distances(x.slice(0, rows.begin, rows.end), x);
    squares.diagonal(rows.begin).slice(0, 0, rows.size()).fill_(std::numeric_limits<double>::infinity());
    return std::get<0>(squares.topk(neighbours, 1, /*largest=*/false)).slice(1, neighbours - 1);
  });
  return all.select(1, 0);
}

}  // namespace

ManifoldScores manifold_scores(comm::Communicator& world, const at::Tensor& samples, const at::Tensor& data,
                               int64_t neighbours) {
  const at::Tensor sample_radii = radii(world, samples, neighbours);
  const at::Tensor data_radii = radii(world, data, neighbours);
  const at::Tensor of_samples = by_row_blocks(world, samples.size(0), 1, [&](layout::Range rows) {
    const at::Tensor inside = squared_distances(samples.slice(0, rows.begin, rows.end), data) <= data_radii;
    return inside.sum(1, /*keepdim=*/true).to(at::kDouble);
  });
  const at::Tensor of_data = by_row_blocks(world, data.size(0), 2, [&](layout::Range rows) {
    const at::Tensor squares = squared_distances(data.slice(0, rows.begin, rows.end), samples);
    const at::Tensor near = squares <= data_radii.slice(0, rows.begin, rows.end).unsqueeze(1);
    return at::stack({(squares <= sample_radii).any(1), near.any(1)}, 1).to(at::kDouble);
  });
  const at::Tensor balls = of_samples.select(1, 0);
  return {.precision = (balls > 0).to(at::kDouble),
          .recall = of_data.select(1, 0),
          .density = balls / static_cast<double>(neighbours),
          .coverage = of_data.select(1, 1)};
}

}  // namespace ddpm::eval
