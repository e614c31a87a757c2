#include "plan/candidates.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "base/counted.h"
#include "base/error.h"
#include "plan/report.h"
#include "plan/sizes.h"

namespace ddpm::plan {
namespace {

Request request_of(int64_t nodes, int64_t ranks_per_node, int64_t global_size = 64) {
  Request request;
  request.model = model_of(20, 100 * layout::kShardBlock);
  request.machine = round_machine();
  request.given = {
      .nodes = nodes, .ranks_per_node = ranks_per_node, .parallelism = {.global_size = global_size, .micro_size = 8}};
  return request;
}

TEST(Candidates, AreAllStagesOnPowersOfTwoAndTheGivenNodes) {
  std::vector<int64_t> nodes;
  for (const Candidate& c : candidates(request_of(5, 2, 60))) {
    if (c.arrangement.parallelism.zero_stage == 0) nodes.push_back(c.arrangement.nodes);
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
    EXPECT_EQ(c.arrangement.parallelism.global_size, 64);
    EXPECT_EQ(64 % (c.arrangement.parallelism.micro_size * c.arrangement.ranks()), 0);
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
  EXPECT_EQ(free->arrangement.parallelism.zero_stage, 0);
  for (const Candidate& c : all) {
    if (c.arrangement.parallelism.zero_stage > 0) continue;
    EXPECT_LE(0.98 * free->cost(), c.cost());
  }

  request.limit_bytes = std::max(free->memory.total(), free->memory.saving()) - 1;
  all = candidates(request);
  const Candidate* limited = cheapest(all);
  ASSERT_NE(limited, nullptr);
  EXPECT_LE(limited->memory.total(), *request.limit_bytes);

  request.limit_bytes = 1;
  EXPECT_EQ(cheapest(candidates(request)), nullptr);
  EXPECT_NE(text_of(request, candidates(request)).find("Nothing fits"), std::string::npos);
}

TEST(Candidates, TheFastestGivesWayToALowerStageWithinATenth) {
  std::vector<Candidate> all(4);
  const auto with_times = [&](const std::vector<double>& times) {
    for (std::size_t stage = 0; stage < times.size(); ++stage) {
      all[stage].arrangement.parallelism.zero_stage = static_cast<int64_t>(stage);
      all[stage].time.forward = times[stage];
    }
    return fastest(all, 1)->arrangement.parallelism.zero_stage;
  };
  EXPECT_EQ(with_times({712, 650, 650, 622}), 1);
  EXPECT_EQ(with_times({684, 650, 650, 622}), 0);
  EXPECT_EQ(with_times({712, 712, 700, 622}), 3);
  all[3].fits = false;
  EXPECT_EQ(with_times({712, 712, 700, 622}), 0);
}

// Whatever a machine's constants are, updating a share of a small state is not worth three collectives.
TEST(Candidates, AHigherStageIsRecommendedOnlyWhereALowerOneDoesNotFit) {
  Request request = request_of(1, 8);
  request.machine.memory_gb_per_s = 0.01;  // the update takes long, and stages 1 to 3 share it
  auto all = candidates(request);
  EXPECT_GT(fastest(all, 1)->arrangement.parallelism.zero_stage, 0);
  EXPECT_EQ(plainest(all, 1)->arrangement.parallelism.zero_stage, 0);
  EXPECT_EQ(cheapest(all)->arrangement.parallelism.zero_stage, 0);

  request.limit_bytes = std::max(all[0].memory.total(), all[0].memory.saving()) - 1;
  all = candidates(request);
  EXPECT_EQ(plainest(all, 1)->arrangement.parallelism.zero_stage, 1);
  EXPECT_EQ(plainest(all, 2), nullptr);
}

TEST(Candidates, WhatTheConfigurationRefusesIsNotPredicted) {
  Request request = request_of(2, 4);
  EXPECT_TRUE(configured(request).works());
  request.given_refusal = "parallel.dp_replicate_size = 3";
  EXPECT_EQ(configured(request).refusal, "parallel.dp_replicate_size = 3");
  EXPECT_FALSE(configured(request).works());
  const base::OrderedJson json = json_of(request, candidates(request));
  EXPECT_TRUE(json.at("peak_memory_bytes").is_null());
  EXPECT_TRUE(json.at("seconds_per_step").is_null());
  EXPECT_EQ(json.at("given").at("refusal"), "parallel.dp_replicate_size = 3");
}

TEST(Candidates, HigherStagesNeedLess) {
  const auto all = candidates(request_of(1, 8));
  for (std::size_t stage = 1; stage < 4; ++stage) {
    EXPECT_LT(all[stage].memory.model_state(), all[stage - 1].memory.model_state());
  }
}

TEST(Candidates, AGivenShardSizeIsKept) {
  Request request = request_of(2, 4);
  request.given.parallelism.dp_shard_size = 2;
  for (const Candidate& c : candidates(request)) {
    EXPECT_EQ(c.arrangement.shard_size(), c.arrangement.parallelism.zero_stage == 0 ? 1 : 2);
  }
}

TEST(Candidates, GivenCopiesAreKept) {
  Request request = request_of(1, 8);
  request.given.parallelism.zero_stage = 1;
  request.given.parallelism.dp_replicate_size = 2;
  for (const Candidate& c : candidates(request)) {
    EXPECT_TRUE(c.refusal.empty()) << c.refusal;
    if (c.arrangement.parallelism.zero_stage == 0) continue;
    EXPECT_EQ(c.arrangement.shard_size(), 4);
    const std::string toml = toml_of(c.arrangement);
    EXPECT_NE(toml.find("dp_shard_size = 4\ndp_replicate_size = 2\n"), std::string::npos) << toml;
  }
}

TEST(Candidates, HaveTheIslandsOfTheConfiguration) {
  Request request = request_of(2, 4);
  request.given.parallelism.zero_stage = 1;
  request.given.parallelism.dp_shard_size = 4;
  request.given.parallelism.dp_replicate_size = 2;
  request.given.parallelism.sync_every = 50;
  const auto all = candidates(request);
  ASSERT_EQ(all.size(), 8U);
  for (const Candidate& c : all) {
    EXPECT_EQ(c.refusal.empty(), c.arrangement.parallelism.zero_stage > 0) << c.refusal;
    if (!c.refusal.empty()) continue;
    EXPECT_EQ(c.arrangement.islands(), 2);
    EXPECT_EQ(c.arrangement.shard_size(), 2 * c.arrangement.nodes);
  }
  EXPECT_NE(all.front().refusal.find("parallel.zero_stage = 0: each of 4 ranks would be an island"), std::string::npos)
      << all.front().refusal;
  ASSERT_NE(cheapest(all), nullptr);
  const std::string keys = toml_of(cheapest(all)->arrangement);
  EXPECT_NE(keys.find("dp_replicate_size = 2\n"), std::string::npos) << keys;
  EXPECT_NE(text_of(request, all).find("Islands  2 in all that is compared"), std::string::npos);
  EXPECT_EQ(json_of(request, all).at("recommendation").at("islands"), 2);
}

TEST(Candidates, FewerRanksThanIslandsAreGivenUp) {
  Request request = request_of(2, 4);
  request.given.parallelism.sync_every = 50;  // of stage 0: each rank is an island
  const auto all = candidates(request);
  for (const Candidate& c : all) {
    EXPECT_EQ(c.refusal.empty(), c.arrangement.nodes == 2) << c.refusal;
    if (!c.refusal.empty()) continue;
    EXPECT_EQ(c.arrangement.islands(), 8);
  }
  EXPECT_NE(all.front().refusal.find("4 ranks cannot make 8 islands"), std::string::npos) << all.front().refusal;

  request.given.parallelism.zero_stage = 1;
  request.given.parallelism.dp_shard_size = 3;
  for (const Candidate& c : candidates(request)) {
    EXPECT_NE(c.refusal.find("parallel.dp_shard_size = 3"), std::string::npos) << "no number of islands is given";
  }
}

TEST(Candidates, WhatCannotRunSaysTheReasonOfItsOwnStage) {
  Request request = request_of(1, 6, 8);
  request.given.parallelism.zero_stage = 1;
  request.given.parallelism.dp_replicate_size = 2;
  request.given.parallelism.sync_every = 4;
  const std::string uneven = "batch.global_size = 8 does not divide over 6 ranks; wanted: a multiple of 6";
  EXPECT_EQ(in_own_stage(request, candidates(request), 1).refusal, uneven);
  request.given.parallelism.global_size = 12;
  request.given.parallelism.dp_replicate_size = 4;
  EXPECT_EQ(in_own_stage(request, candidates(request), 1).refusal,
            "parallel.dp_replicate_size = 4 for 6 ranks; wanted: a divisor of 6");
}

TEST(Candidates, IslandsThatTrainingRefusesAreRefusedInItsWords) {
  Request request = request_of(2, 4);
  request.given.parallelism.zero_stage = 1;
  request.given.parallelism.sync_every = 4;
  for (const Candidate& c : candidates(request)) {
    EXPECT_NE(c.refusal.find("with parallel.zero_stage = 1: all ranks share one copy"), std::string::npos) << c.refusal;
  }
  request.given.parallelism.dp_shard_size = 16;
  for (const Candidate& c : candidates(request)) {
    EXPECT_EQ(c.refusal, "parallel.dp_shard_size = 16 for 8 ranks; wanted: a divisor of 8");
  }
}

TEST(Candidates, ARefusalShowsNoMicroBatchThatNobodySet) {
  Request request = request_of(1, 6, 16);
  request.given.parallelism.micro_size = 16;
  request.given.parallelism.tensor_size = 2;
  EXPECT_EQ(candidates(request).front().refusal,
            "batch.global_size = 16 does not divide over 3 groups of 2 parts; wanted: a multiple of 3");
}

TEST(Report, SaysWhichKeysToTakeOut) {
  Request request = request_of(1, 2);
  const auto advice = [&] { return text_of(request, candidates(request)); };
  EXPECT_EQ(advice().find("dp_shard_size"), std::string::npos);
  request.given.parallelism.dp_shard_size = 2;
  EXPECT_NE(advice().find("zero_stage = 0\n\nand take parallel.dp_shard_size out."), std::string::npos) << advice();
  request.given.parallelism.dp_shard_size.reset();
  request.given.parallelism.dp_replicate_size = 2;
  EXPECT_NE(advice().find("zero_stage = 0\n\nand take parallel.dp_replicate_size out."), std::string::npos) << advice();
}

TEST(Report, NamesTheKeysThatContradictWhatIsChosen) {
  const layout::Parallelism plain;
  const layout::Parallelism sharing{.zero_stage = 1, .dp_shard_size = 4};
  const layout::Parallelism copies{.dp_replicate_size = 2};
  const layout::Parallelism staged{.dp_replicate_size = 2, .stage_units = {3, 9}};
  EXPECT_EQ(keys_to_take_out(plain, sharing), "");
  EXPECT_EQ(keys_to_take_out(sharing, sharing), "");
  EXPECT_EQ(keys_to_take_out(sharing, plain), "\nand take parallel.dp_shard_size out.\n");
  EXPECT_EQ(keys_to_take_out(copies, sharing), "\nand take parallel.dp_replicate_size out.\n");
  EXPECT_EQ(keys_to_take_out(staged, sharing), "\nand take parallel.dp_replicate_size and stage_units out.\n");
  EXPECT_EQ(keys_to_take_out(staged, plain), "\nand take parallel.dp_replicate_size and stage_units out.\n");
  const layout::Parallelism both{.zero_stage = 1, .dp_shard_size = 4, .dp_replicate_size = 2, .stage_units = {3, 9}};
  EXPECT_EQ(keys_to_take_out(both, plain),
            "\nand take parallel.dp_shard_size, dp_replicate_size and stage_units out.\n");
}

std::vector<std::string> lines_of(const Request& request) {
  std::vector<std::string> lines;
  std::istringstream text(text_of(request, candidates(request)));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::size_t columns_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

/// Words of a line; a number and its unit count as one.
std::size_t cells_of(const std::string& line) {
  std::istringstream words(line);
  std::size_t cells = 0;
  for (std::string word; words >> word;) cells += word == "s" || word == "ms" || word == "µs" ? 0 : 1;
  return cells;
}

TEST(Report, FitsIntoAHundredColumnsWhichNeverRunTogether) {
  struct Case {
    int64_t nodes, ranks_per_node, global_size;
    double tflops;
    bool limited;
  };
  for (const Case& one :
       {Case{1, 1, 1, 1.0, false}, Case{1, 8, 64, 1e4, true}, Case{1024, 8, 16384, 1.0, true},
        Case{1024, 8, int64_t{1} << 23, 1e-3, true}, Case{int64_t{1} << 20, 8, int64_t{1} << 23, 1e3, true},
        Case{int64_t{1} << 20, 8, 48, 1e3, true}}) {
    Request request = request_of(one.nodes, one.ranks_per_node, one.global_size);
    request.machine.tflops = one.tflops;
    if (one.limited) request.limit_bytes = int64_t{1} << 30;
    std::size_t rows = 0;
    for (const std::string& line : lines_of(request)) {
      EXPECT_LE(columns_of(line), 100U) << line;
      if (!line.ends_with("yes") && !line.ends_with("no") && !line.ends_with("%")) continue;
      EXPECT_EQ(cells_of(line), one.limited ? 15U : 14U) << line;
      ++rows;
    }
    EXPECT_GE(rows, 1U);
  }
}

/// The report in one line.
std::string flat_text(const Request& request) {
  std::istringstream words(text_of(request, candidates(request)));
  std::string text;
  for (std::string word; words >> word;) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(Report, SaysWhatNeedsLessOfWhatThereIs) {
  Request request = request_of(1, 4);
  request.limit_bytes = 1;
  request.given.on_device = true;
  request.machine.name = "t4";
  EXPECT_NE(flat_text(request).find("precision.mixed_precision = \"fp16\""), std::string::npos) << flat_text(request);
  request.machine.name = "a100";
  EXPECT_NE(flat_text(request).find("precision.mixed_precision = \"bf16\""), std::string::npos) << flat_text(request);
  EXPECT_NE(flat_text(request).find("more nodes and tiles of images"), std::string::npos) << flat_text(request);

  request.given.ranks_per_node = 1;
  EXPECT_EQ(flat_text(request).find("more nodes"), std::string::npos) << flat_text(request);
  EXPECT_NE(flat_text(request).find("and more GPUs for tiles of images"), std::string::npos) << flat_text(request);
  request.given.on_device = false;
  EXPECT_NE(flat_text(request).find("and more ranks for tiles of images"), std::string::npos) << flat_text(request);
}

TEST(Report, WarnsAsAStartDoes) {
  Request request = request_of(1, 4);
  EXPECT_EQ(flat_text(request).find("Warning"), std::string::npos);
  EXPECT_TRUE(json_of(request, candidates(request)).at("warnings").empty());
  request.given.parallelism.zero_stage = 3;
  request.given.parallelism.tiles = 4;
  const std::string warning = layout::warnings(request.given.parallelism, 4).at(0);
  EXPECT_NE(flat_text(request).find("Warning " + warning), std::string::npos) << flat_text(request);
  EXPECT_EQ(json_of(request, candidates(request)).at("warnings"), base::OrderedJson::array({warning}));
  request.given_refusal = "it cannot run";
  EXPECT_EQ(flat_text(request).find("Warning"), std::string::npos);
}

TEST(Report, NamesTheNumbersOfNodesThatCannotRun) {
  const auto text = flat_text;
  EXPECT_EQ(text(request_of(4, 8, 64)).find("Not planned"), std::string::npos);
  const std::string many = text(request_of(64, 8, 32));
  EXPECT_NE(many.find("Not planned: 8, 16, 32 and 64 nodes, because batch.global_size = 32 is not a multiple of their "
                      "ranks, 8 per node."),
            std::string::npos)
      << many;
  const std::string one = text(request_of(3, 8, 64));
  EXPECT_NE(one.find("Not planned: 3 nodes, because batch.global_size = 64 is not a multiple of 24 ranks."),
            std::string::npos)
      << one;

  Request request = request_of(3, 1, 48);
  request.given.parallelism.reproducible = true;
  request.given.parallelism.threads_per_rank = 1;
  request.given.parallelism.micro_size = 3;
  EXPECT_NE(text(request).find("Not planned: 3 nodes: run.reproducible = true"), std::string::npos) << text(request);
  EXPECT_NE(text(request).find("[1] cannot run: run.reproducible = true with parallel.zero_stage = 2"),
            std::string::npos)
      << text(request);

  request = request_of(2, 6, 15);
  request.given.parallelism.zero_stage = 1;
  request.given.parallelism.tensor_size = 2;
  EXPECT_NE(text(request).find("Not planned: 2 nodes: batch.global_size = 15 does not divide over 6 groups of 2 parts; "
                               "wanted: a multiple of 6"),
            std::string::npos)
      << text(request);
}

TEST(Report, SaysWhyTheGivenNodesCannotRun) {
  Request request = request_of(2, 4, 8);
  request.given_refusal = "batch.global_size = 8 does not divide";
  EXPECT_NE(flat_text(request).find("As configured: 2 nodes × 4 ranks, ZeRO 0 cannot "
                                    "run: batch.global_size = 8 does not divide"),
            std::string::npos)
      << flat_text(request);
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
  EXPECT_EQ(base::grouped(0), "0");
  EXPECT_EQ(base::grouped(999), "999");
  EXPECT_EQ(base::grouped(1000), "1,000");
  EXPECT_EQ(base::grouped(113673219), "113,673,219");
  EXPECT_EQ(size_text(0), "-");
  EXPECT_EQ(size_text(3 << 20), "3.00 MiB");
  EXPECT_EQ(size_text(int64_t{100} << 30), "100 GiB");
}

}  // namespace
}  // namespace ddpm::plan
