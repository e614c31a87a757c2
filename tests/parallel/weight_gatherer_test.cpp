#include "parallel/weight_gatherer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include "nn/parameter.h"
#include "parallel/gradient_hooks.h"
#include "parallel/groups.h"
#include "parallel/whole_tensors.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

comm::Communicator& world() { return test::world(); }

/// y = x · w: a unit with one weight.
class Product final : public nn::Unit {
 public:
  explicit Product(const std::string& name) : Unit(name) {}
  nn::UnitState forward(nn::UnitState state, const nn::ForwardContext& /*context*/) const override {
    state.x = state.x.matmul(weight);
    return state;
  }
  [[nodiscard]] nn::graph::UnitValues record(nn::graph::UnitValues state, nn::graph::Graph& /*g*/) const override {
    return state;
  }
  [[nodiscard]] nn::Operations operations(nn::ImageSize& /*size*/) const override { return {}; }
  at::Tensor weight;
};

constexpr int64_t kSize = 40;

struct Chain {
  std::vector<std::unique_ptr<Product>> units;
  std::vector<at::Tensor> values;
  std::unique_ptr<ParameterArena> arena;

  Chain(int count, int64_t stage) {
    std::vector<ArenaParameter> parameters;
    for (int i = 0; i < count; ++i) {
      units.push_back(std::make_unique<Product>(fmt::format("unit{}", i)));
      parameters.push_back({units.back()->name(), {kSize, kSize}, &units.back()->weight, i});
    }
    const bool shared = stage > 0;
    arena = std::make_unique<ParameterArena>(
        parameters, at::kFloat, at::kCPU,
        Sharding{.zero_stage = stage, .parts = shared ? world().size() : 1, .index = shared ? world().rank() : 0});
    for (int i = 0; i < count; ++i) {
      at::Tensor value = at::full({kSize, kSize}, 0.01 * (i + 1));
      value.diagonal().fill_(1.0);
      arena->assign(arena->master(), arena->entries()[static_cast<std::size_t>(i)], value);
      values.push_back(value);
    }
  }
  std::size_t gathered() const {
    std::size_t present = 0;
    for (std::size_t i = 0; i < units.size(); ++i) present += arena->unit_weights(i).storage().nbytes() > 0 ? 1U : 0U;
    return present;
  }
};

layout::Mesh mesh(int64_t stage) { return layout::Parallelism{.zero_stage = stage}.mesh(world().size()); }

TEST(WeightGatherer, GivesEveryRankAllWeightsAfterAnUpdate) {
  for (const int64_t stage : {1, 2}) {
    Chain chain(3, stage);
    const GradientGroups groups(world(), mesh(stage));
    WeightGatherer gatherer(*chain.arena, groups.shard(), true);
    gatherer.weights_changed();
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(chain.units[i]->weight.detach(), chain.values[i]));
  }
}

TEST(WeightGatherer, Stage3HoldsFewUnitsAtATimeAndGivesTheSameGradients) {
  constexpr int kUnits = 6;
  const nn::ForwardContext context{nn::RandomContext(), nn::whole_image()};
  const at::Tensor x = at::randn({4, kSize});
  Chain whole(kUnits, 0);
  nn::UnitState expected{.x = x};
  for (const auto& unit : whole.units) expected = unit->forward(std::move(expected), context);
  expected.x.sum().backward();

  for (const bool overlap : {true, false}) {
    Chain chain(kUnits, 3);
    const GradientGroups groups(world(), mesh(3));
    WeightGatherer gatherer(*chain.arena, groups.shard(), overlap);
    std::size_t most = 0;
    std::vector<at::Tensor> gradients(kUnits);
    const GradientHooks hooks(*chain.arena, [&](std::size_t i) {
      most = std::max(most, chain.gathered());
      gradients[i] = std::exchange(chain.units[i]->weight.mutable_grad(), {});
      gatherer.release(i);
    });
    for (int step = 0; step < 2; ++step) {
      nn::UnitState state{.x = x};
      for (std::size_t i = 0; i < kUnits; ++i) {
        state = gatherer.run(*chain.units[i], i, std::move(state), context);
        most = std::max(most, chain.gathered());
      }
      EXPECT_TRUE(at::equal(state.x.detach(), expected.x.detach()));
      state.x.sum().backward();
      gatherer.release_all();
      for (std::size_t i = 0; i < kUnits; ++i) EXPECT_TRUE(at::equal(gradients[i], whole.units[i]->weight.grad()));
      EXPECT_EQ(chain.gathered(), 0U);
      gatherer.weights_changed();
    }
    EXPECT_LE(most, 2U);
  }
}

TEST(WeightGatherer, WithoutGradientsNothingStays) {
  Chain chain(3, 3);
  const GradientGroups groups(world(), mesh(3));
  WeightGatherer gatherer(*chain.arena, groups.shard(), true);
  const at::NoGradGuard no_grad;
  nn::UnitState state{.x = at::randn({4, kSize})};
  for (std::size_t i = 0; i < 3; ++i) {
    state = gatherer.run(*chain.units[i], i, std::move(state), {nn::RandomContext(), nn::whole_image()});
  }
  gatherer.release_all();
  EXPECT_EQ(chain.gathered(), 0U);
}

TEST(GatherWhole, RebuildsTheFlatBufferOnRanksThatKeepIt) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    Chain chain(3, stage);
    const GradientGroups groups(world(), mesh(stage));
    const bool keep = world().rank() == world().size() - 1;
    const at::Tensor whole = gather_whole(*chain.arena, chain.arena->master(), groups.shard(), keep);
    ASSERT_EQ(whole.defined(), keep);
    if (!keep) continue;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto& entry = chain.arena->entries()[i];
      EXPECT_TRUE(at::equal(ParameterArena::view(whole.narrow(0, entry.range.begin, entry.range.size()), entry),
                            chain.values[i]));
    }
  }
}

}  // namespace
}  // namespace ddpm::parallel
