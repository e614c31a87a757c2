#include "layout/pipeline.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace ddpm::layout {
namespace {

double dearest(const std::vector<double>& costs, const std::vector<Range>& stages) {
  double most = 0.0;
  for (const Range& stage : stages) {
    most = std::max(most, std::accumulate(costs.begin() + stage.begin, costs.begin() + stage.end, 0.0));
  }
  return most;
}

/// The least there is, by trying every cut.
double least(const std::vector<double>& costs, std::size_t stages) {
  double sum = 0.0;
  double best = std::accumulate(costs.begin(), costs.end(), 0.0);
  if (stages == 1) return best;
  for (std::size_t first = 1; first + stages - 1 <= costs.size(); ++first) {
    sum += costs[first - 1];
    best = std::min(
        best, std::max(sum, least({costs.begin() + static_cast<std::ptrdiff_t>(first), costs.end()}, stages - 1)));
  }
  return best;
}

TEST(Stages, TheDearestIsAsCheapAsItCanBe) {
  const std::vector<std::vector<double>> rows = {
      {1, 1, 1, 1}, {9, 1, 1, 1, 1, 1}, {1, 2, 3, 4, 5, 6, 7}, {5, 0, 0, 5, 5, 1}, {3, 1, 4, 1, 5, 9, 2, 6, 5}};
  for (const std::vector<double>& costs : rows) {
    for (std::size_t stages = 1; stages <= costs.size(); ++stages) {
      const std::vector<Range> cut = balanced_stages(costs, static_cast<int64_t>(stages));
      ASSERT_EQ(cut.size(), stages);
      EXPECT_EQ(cut.back().end, std::ssize(costs));
      for (std::size_t s = 0; s < stages; ++s) {
        EXPECT_FALSE(cut[s].empty());
        EXPECT_EQ(cut[s].begin, s > 0 ? cut[s - 1].end : 0);
      }
      EXPECT_DOUBLE_EQ(dearest(costs, cut), least(costs, stages));
    }
  }
}

TEST(OneForwardOneBackward, RunsAheadByTheStagesAfterIt) {
  const auto f = [](int64_t micro) { return StagePass{.forward = true, .micro = micro}; };
  const auto b = [](int64_t micro) { return StagePass{.forward = false, .micro = micro}; };
  EXPECT_EQ(one_forward_one_backward(2, 3, 3), (std::vector{f(0), b(0), f(1), b(1), f(2), b(2)}));
  EXPECT_EQ(one_forward_one_backward(0, 3, 3), (std::vector{f(0), f(1), f(2), b(0), b(1), b(2)}));
  EXPECT_EQ(one_forward_one_backward(0, 3, 4), (std::vector{f(0), f(1), f(2), b(0), f(3), b(1), b(2), b(3)}));
  EXPECT_EQ(one_forward_one_backward(1, 4, 2), (std::vector{f(0), f(1), b(0), b(1)}));
  EXPECT_EQ(one_forward_one_backward(0, 1, 2), (std::vector{f(0), b(0), f(1), b(1)}));
}

struct Course {
  int64_t slots = 0;      ///< until all have ended, each pass a slot
  int64_t most_kept = 0;  ///< micro-batches that the first stage keeps at a time
  bool finished = true;
};

/// Each stage takes its next pass as soon as what it waits for is there.
Course course_of(int64_t stages, int64_t micro_batches) {
  std::vector<std::deque<StagePass>> left;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const auto passes = one_forward_one_backward(stage, stages, micro_batches);
    left.emplace_back(passes.begin(), passes.end());
  }
  std::set<std::tuple<int64_t, bool, int64_t>> done;
  Course result;
  int64_t kept = 0;
  while (std::ranges::any_of(left, [](const auto& passes) { return !passes.empty(); })) {
    const auto before = done;
    for (int64_t stage = 0; stage < stages; ++stage) {
      auto& passes = left[static_cast<std::size_t>(stage)];
      if (passes.empty()) continue;
      const StagePass pass = passes.front();
      const int64_t source = pass.forward ? stage - 1 : stage + 1;
      if (source >= 0 && source < stages && !before.contains({source, pass.forward, pass.micro})) continue;
      done.insert({stage, pass.forward, pass.micro});
      passes.pop_front();
      if (stage == 0) kept += pass.forward ? 1 : -1;
    }
    result.most_kept = std::max(result.most_kept, kept);
    ++result.slots;
    if (done.size() == before.size()) return {.finished = false};
  }
  return result;
}

TEST(OneForwardOneBackward, EndsWithTheBubbleOfTheoryAndKeepsNoMoreThanItsStages) {
  for (int64_t stages = 1; stages <= 5; ++stages) {
    for (int64_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      const Course result = course_of(stages, micro_batches);
      ASSERT_TRUE(result.finished) << stages << " stages, " << micro_batches << " micro-batches";
      EXPECT_EQ(result.slots, 2 * (micro_batches + stages - 1));
      EXPECT_LE(result.most_kept, std::min(stages, micro_batches));
      const double idle = 1.0 - 2.0 * static_cast<double>(micro_batches) / static_cast<double>(result.slots);
      EXPECT_NEAR(pipeline_bubble(stages, micro_batches), idle, 1e-12);
    }
  }
}

}  // namespace
}  // namespace ddpm::layout
