// A convolution over tiles is that of the whole image, and so are its gradients: checked in float64 against LibTorch's.
#include "nn/ops/halo_convolution.h"

#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "nn/ops/volume.h"
#include "parallel/over_ranks.h"
#include "parallel/tile_partition.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

using Numbers = std::vector<int64_t>;

/// Images, some of whose axes are periodic.
struct Case {
  Numbers sides;
  Numbers parts;
  Numbers periodic;  ///< 0 or 1 for each axis
  int64_t in = 3;
  int64_t out = 4;
};

std::vector<Case> cases_over(int64_t ranks) {
  std::vector<Case> cases;
  for (const int64_t first : {0, 1}) {
    for (const int64_t second : {0, 1}) {
      cases.push_back({{14, 10}, {ranks, 1}, {first, second}});
      cases.push_back({{14, 10}, {1, ranks}, {first, second}});
      cases.push_back({{8, 6, 10}, {ranks, 1, 1}, {first, second, 1}});
      cases.push_back({{4, 6, 10}, {1, 1, ranks}, {0, second, first}});
      // Tiles large enough, and channels, for Winograd's convolution.
      cases.push_back({{28, 10}, {ranks, 1}, {first, second}, 16, 32});
      if (ranks != 4) continue;
      cases.push_back({{6, 10}, {2, 2}, {first, second}});
      cases.push_back({{6, 4, 10}, {2, 1, 2}, {first, second, 0}});
      cases.push_back({{6, 4, 10}, {2, 2, 1}, {first, 1, second}});
    }
  }
  return cases;
}

at::Tensor numbers(const Numbers& sizes, at::ScalarType dtype) {
  return at::randn(sizes, at::kDouble).to(dtype).set_requires_grad(true);
}

/// x [N, C, axes...] with what its kernel of 3 sees around it.
at::Tensor surrounded(at::Tensor x, const Numbers& periodic) {
  for (std::size_t axis = 0; axis < periodic.size(); ++axis) {
    const auto dim = static_cast<int64_t>(axis) + 2;
    const at::Tensor first = x.narrow(dim, 0, 1);
    const at::Tensor last = x.narrow(dim, x.size(dim) - 1, 1);
    x = periodic[axis] != 0 ? at::cat({last, x, first}, dim)
                            : at::cat({at::zeros_like(last), x, at::zeros_like(first)}, dim);
  }
  return x;
}

class OverTiles : public testing::Test {
 protected:
  OverTiles() { at::manual_seed(11); }

  /// Compares y and all gradients over the tiles with those of the whole, to `limit` relative.
  void expect_whole(const Case& c, at::ScalarType dtype, double limit) {
    const bool flat = c.sides.size() == 2;
    const int64_t rows = flat ? c.sides[0] : c.sides[0] * c.sides[1];
    const auto periodic = [&](std::size_t from_end) { return c.periodic[c.sides.size() - from_end] != 0; };
    const nn::ImageShape shape{.depth = flat ? 0 : c.sides[0],
                               .width = c.sides.back(),
                               .periodic_depth = !flat && periodic(3),
                               .periodic_height = periodic(2),
                               .periodic_width = periodic(1)};
    const TilePartition tile(layout::Tiling(c.sides, c.parts, 2), shape, &world_);
    const at::Tensor x = numbers({2, c.in, rows, c.sides.back()}, dtype);
    const at::Tensor weight = numbers(flat ? Numbers{c.out, c.in, 3, 3} : Numbers{c.out, c.in, 3, 3, 3}, dtype);
    const at::Tensor bias = numbers({c.out}, dtype);
    const at::Tensor dy = at::randn({2, c.out, rows, c.sides.back()}, at::kDouble).to(dtype);

    const std::vector<at::Tensor> wanted = whole(c, {x, weight, bias}, dy);
    const auto leaf = [](const at::Tensor& t) { return t.detach().clone().set_requires_grad(true); };
    const std::vector<at::Tensor> own = {leaf(tile.cut(x.detach())), leaf(weight), leaf(bias)};
    const at::Tensor y = flat ? nn::halo_convolution(own[0], own[1], own[2], tile)
                              : nn::image_of_volume(nn::halo_convolution(nn::volume_of(own[0], tile.depth(own[0])),
                                                                         own[1], own[2], tile));
    y.backward(tile.cut(dy));
    EXPECT_LT(test::relative_error(y.detach().to(at::kDouble), tile.cut(wanted[0]), world_), limit) << "y";
    EXPECT_LT(test::relative_error(own[0].grad().to(at::kDouble), tile.cut(wanted[1]), world_), limit) << "x";
    for (std::size_t i = 1; i < own.size(); ++i) {
      at::Tensor sum = own[i].grad().to(at::kDouble);
      world_.all_reduce(buffer_of(sum), comm::ReduceOp::sum).wait();
      EXPECT_LT(((sum - wanted[i + 1]).norm() / wanted[i + 1].norm()).item<double>(), limit) << "parameter " << i;
    }
  }

  comm::Communicator& world_ = ddpm::test::world();

 private:
  /// y and the gradients of `inputs` (x, weight, bias), in float64.
  static std::vector<at::Tensor> whole(const Case& c, const std::vector<at::Tensor>& inputs, const at::Tensor& dy) {
    std::vector<at::Tensor> leaves;
    leaves.reserve(inputs.size());
    for (const at::Tensor& t : inputs) leaves.push_back(t.detach().to(at::kDouble).set_requires_grad(true));
    const bool flat = c.sides.size() == 2;
    const at::Tensor image = flat ? leaves[0] : nn::volume_of(leaves[0], c.sides[0]);
    const at::Tensor around = surrounded(image, c.periodic);
    const at::Tensor y =
        flat ? at::conv2d(around, leaves[1], leaves[2]) : nn::image_of_volume(at::conv3d(around, leaves[1], leaves[2]));
    y.backward(dy.to(at::kDouble));
    return {y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  }
};

std::string text_of(const Case& c) {
  return testing::PrintToString(c.parts) + " periodic " + testing::PrintToString(c.periodic);
}

TEST_F(OverTiles, ConvolvesWhatTheWholeImageConvolves) {
  for (const Case& c : cases_over(world_.size())) {
    SCOPED_TRACE(text_of(c));
    expect_whole(c, at::kDouble, 1e-13);
    expect_whole(c, at::kFloat, c.in < 16 ? 1e-6 : 3e-6);
  }
}

TEST_F(OverTiles, RoundsAsOftenInReducedPrecisionAsPiecesMeet) {
  for (const Case& c : cases_over(world_.size())) {
    SCOPED_TRACE(text_of(c));
    expect_whole(c, at::kBFloat16, 0x1p-7);
  }
}

}  // namespace
}  // namespace ddpm::parallel
