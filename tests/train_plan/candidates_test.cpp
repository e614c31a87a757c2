#include "train/plan/candidates.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "train/plan/report.h"
#include "train_plan/sizes.h"

namespace ddpm::train::plan {
namespace {

Request request_of(int64_t nodes, int64_t ranks_per_node, int64_t global_size = 64) {
  Request request;
  request.model = model_of(20, 100 * layout::kShardBlock);
  request.machine = round_machine();
  request.given = {.nodes = nodes, .ranks_per_node = ranks_per_node, .global_size = global_size, .micro_size = 8};
  return request;
}

TEST(Candidates, AreAllStagesOnPowersOfTwoAndTheGivenNodes) {
  std::vector<int64_t> nodes;
  for (const Candidate& c : candidates(request_of(5, 2, 60))) {
    if (c.arrangement.zero_stage == 0) nodes.push_back(c.arrangement.nodes);
  }
  EXPECT_EQ(nodes, (std::vector<int64_t>{1, 2, 4, 5}));
}

TEST(Candidates, KeepTheGlobalBatchAndCutTheMicroBatch) {
  EXPECT_EQ(fitting_micro_size(64, 8), 8);
  EXPECT_EQ(fitting_micro_size(4, 8), 4);
  EXPECT_EQ(fitting_micro_size(15, 8), 5);
  EXPECT_EQ(fitting_micro_size(0, 8), 1);
  for (const Candidate& c : candidates(request_of(16, 4))) {
    EXPECT_TRUE(c.refusal.empty()) << c.refusal;
    EXPECT_EQ(c.arrangement.global_size, 64);
    EXPECT_EQ(64 % (c.arrangement.micro_size * c.arrangement.ranks()), 0);
  }
}

TEST(Candidates, WhatCannotRunSaysWhyAndIsNotRecommended) {
  const auto all = candidates(request_of(4, 8, 16));
  EXPECT_NE(all.back().refusal.find("batch.global_size = 16"), std::string::npos);
  EXPECT_FALSE(all.back().works());
  ASSERT_NE(cheapest(all), nullptr);
  EXPECT_LT(cheapest(all)->arrangement.nodes, 4);
  EXPECT_EQ(fastest(all, 4), nullptr);
}

TEST(Candidates, TheCheapestThatFitsIsRecommended) {
  Request request = request_of(4, 4);
  auto all = candidates(request);
  const Candidate* free = cheapest(all);
  ASSERT_NE(free, nullptr);
  for (const Candidate& c : all) EXPECT_LE(0.98 * free->cost(), c.cost());

  request.limit_bytes = std::max(free->memory.total(), free->memory.saving()) - 1;
  all = candidates(request);
  const Candidate* limited = cheapest(all);
  ASSERT_NE(limited, nullptr);
  EXPECT_LE(limited->memory.total(), *request.limit_bytes);
  EXPECT_GE(limited->cost(), 0.98 * free->cost());

  request.limit_bytes = 1;
  EXPECT_EQ(cheapest(candidates(request)), nullptr);
  EXPECT_NE(text_of(request, candidates(request)).find("Nothing fits"), std::string::npos);
}

TEST(Candidates, HigherStagesNeedLess) {
  const auto all = candidates(request_of(1, 8));
  for (std::size_t stage = 1; stage < 4; ++stage) {
    EXPECT_LT(all[stage].memory.model_state(), all[stage - 1].memory.model_state());
  }
}

TEST(Candidates, AGivenShardSizeIsKept) {
  Request request = request_of(2, 4);
  request.shard_size = 2;
  for (const Candidate& c : candidates(request)) {
    EXPECT_EQ(c.arrangement.shard_size, c.arrangement.zero_stage == 0 ? 1 : 2);
  }
}

TEST(Report, SaysWhichKeysToTakeOut) {
  Request request = request_of(1, 2);
  const auto advice = [&] { return text_of(request, candidates(request)); };
  EXPECT_EQ(advice().find("dp_shard_size"), std::string::npos);
  request.shard_size = 2;
  EXPECT_NE(advice().find("zero_stage = 0\n\nand take parallel.dp_shard_size"), std::string::npos) << advice();
}

TEST(Report, FitsIntoAHundredColumns) {
  Request request = request_of(1024, 8, 8192 * 2);
  request.limit_bytes = int64_t{1} << 30;
  std::string line;
  for (const char c : text_of(request, candidates(request))) {
    if (c != '\n') {
      if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) line += c;
      continue;
    }
    EXPECT_LE(line.size(), 100U) << line;
    line.clear();
  }
}

TEST(Report, JsonHoldsTheGivenArrangementAtTheTop) {
  const Request request = request_of(2, 4);
  const base::OrderedJson json = json_of(request, candidates(request));
  const Candidate given = predict(request, request.given);
  EXPECT_EQ(json.at("peak_memory_bytes").get<int64_t>(), given.memory.total());
  EXPECT_DOUBLE_EQ(json.at("seconds_per_step").get<double>(), given.time.total());
  EXPECT_EQ(json.at("table").size(), 8U);
  EXPECT_EQ(json.at("given").at("memory_bytes").at("moments").get<int64_t>(), given.memory.moments);
}

TEST(Report, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(113673219), "113,673,219");
  EXPECT_EQ(size_text(0), "-");
  EXPECT_EQ(size_text(3 << 20), "3.00 MiB");
  EXPECT_EQ(size_text(int64_t{100} << 30), "100 GiB");
}

}  // namespace
}  // namespace ddpm::train::plan
