// Steps that are recorded once and replayed: on the host by a twin that keeps the closure and calls it again, with all
// that the host knew when it was recorded. So whatever a GPU's graph would not see change, this one does not either.
#include "engine/step_graph.h"

#include <stdexcept>

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "engine/step_case.h"

namespace ddpm::engine::test {
namespace {

/// `problem`: what recording ends with.
class Twin final : public device::DeviceGraph {
 public:
  explicit Twin(std::string problem = {}) : problem_(std::move(problem)) {}
  void record(const std::function<void()>& work) override {
    if (!problem_.empty()) throw std::runtime_error(problem_);
    work_ = work;
  }
  void replay() override {
    ++replays;
    work_();
  }

  static inline int64_t replays = 0;

 private:
  std::function<void()> work_;
  std::string problem_;
};

class StepGraphTest : public StepCaseTest {
 protected:
  Trained train(const std::string& precision, std::unique_ptr<device::DeviceGraph> graph) {
    return StepCaseTest::train({.precision = precision, .steps = kScaledSteps, .graph = std::move(graph)});
  }

  void expect_same(const Trained& seen, const Trained& wanted) {
    EXPECT_TRUE(at::equal(seen.weights, wanted.weights));
    EXPECT_EQ(seen.losses, wanted.losses);
    EXPECT_EQ(seen.norms, wanted.norms);
  }
};

TEST_F(StepGraphTest, ReplayedStepsAreThoseThatAreLaunched) {
  for (const std::string precision : {"no", "bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    const Trained launched = train(precision, nullptr);
    EXPECT_EQ(launched.most_ahead, 1);
    Twin::replays = 0;
    const Trained replayed = train(precision, std::make_unique<Twin>());
    EXPECT_EQ(Twin::replays, kScaledSteps - 2);
    EXPECT_EQ(replayed.most_ahead, 2);
    expect_same(replayed, launched);
  }
}

TEST_F(StepGraphTest, WhatCannotBeRecordedOnOneRankIsLaunchedOnAll) {
  const bool odd = ddpm::test::world().rank() == ddpm::test::world().size() - 1;
  Twin::replays = 0;
  testing::internal::CaptureStderr();
  const Trained seen = train("no", std::make_unique<Twin>(odd ? "a stone in the way\nand more" : ""));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Twin::replays, 0);
  if (ddpm::test::world().rank() == 0) {
    EXPECT_THAT(said, testing::HasSubstr(fmt::format(
                          "rank {} cannot record step 3 as a CUDA graph (a stone in the way); all ranks launch its "
                          "operations one by one",
                          ddpm::test::world().size() - 1)));
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
  EXPECT_EQ(seen.losses.size(), static_cast<std::size_t>(kScaledSteps));
}

}  // namespace
}  // namespace ddpm::engine::test
