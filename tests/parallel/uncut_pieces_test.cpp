// Six ranks: three that sum a gradient, twice, since each block's channels are cut in two.
#include "parallel/uncut_pieces.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

using ddpm::test::world;

constexpr int64_t kParts = 2;
constexpr int64_t kSummed = 3;
constexpr int64_t kMoreThanAPacket = (int64_t{4} << 20) + 1;

layout::Mesh mesh(int64_t stage) {
  const layout::Axis summed = stage == 0 ? layout::Axis::replicate : layout::Axis::shard;
  return {{{summed, kSummed}, {layout::Axis::tensor, kParts}}, world().size()};
}

struct Model {
  explicit Model(int64_t stage)
      : part(mesh(stage).coordinate(world().rank(), layout::Axis::tensor)),
        arena({{.name = "norm", .shape = {5}, .value = &norm},
               {.name = "shortcut", .shape = {kMoreThanAPacket}, .value = &shortcut},
               {.name = "conv1", .shape = {6, 4}, .value = &conv1, .unit = 1, .split = split()},
               {.name = "border", .shape = {3, 7}, .value = &border, .unit = 1}},
              at::kFloat, at::kCPU,
              {.zero_stage = stage,
               .parts = stage == 0 ? 1 : kSummed,
               .index = stage == 0 ? 0 : mesh(stage).coordinate(world().rank(), layout::Axis::shard),
               .channel_parts = kParts,
               .channel_part = part,
               .segment_elements = 16}) {}
  [[nodiscard]] base::Split split() const { return {.dim = 0, .units = 12, .parts = kParts, .part = part}; }

  int64_t part;
  at::Tensor norm;
  at::Tensor shortcut;
  at::Tensor conv1;
  at::Tensor border;
  ParameterArena arena;
};

TEST(UncutPieces, AreThoseOfTheFirstPartEverywhere) {
  const at::NoGradGuard no_grad;
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "stage " << stage);
    const Model model(stage);
    UncutPieces uncut(model.arena, model.arena.gradient_pieces(), world(), mesh(stage), layout::kGradients);
    const auto own = static_cast<float>(world().rank() + 1);
    const auto first = static_cast<float>(world().rank() - model.part + 1);
    for (const at::Tensor& piece : model.arena.gradient_pieces()) piece.fill_(own);
    uncut.take_first();

    StateBuffer wanted = model.arena.make_state();
    StateBuffer held = model.arena.make_state();  // 1 where there is an element, 0 in padding
    for (const ArenaEntry& entry : model.arena.entries()) {
      model.arena.assign(wanted, entry, at::full(entry.split.whole(entry.shape), entry.split.cuts() ? own : first));
      model.arena.assign(held, entry, at::full(entry.split.whole(entry.shape), 1.0));
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(at::equal(model.arena.gradient_pieces()[i] * held[i], wanted[i])) << "piece " << i;
    }
  }
}

TEST(UncutPieces, SumsOfTwoAreAlikeAnyway) {
  const Model model(0);
  UncutPieces uncut(model.arena, model.arena.gradient_pieces(), world(), mesh(0), layout::Axis::island);
  for (const at::Tensor& piece : model.arena.gradient_pieces()) piece.fill_(static_cast<float>(world().rank()));
  uncut.take_first();
  for (const at::Tensor& piece : model.arena.gradient_pieces()) {
    EXPECT_TRUE(at::equal(piece, at::full_like(piece, static_cast<float>(world().rank()))));
  }
}

}  // namespace
}  // namespace ddpm::parallel
