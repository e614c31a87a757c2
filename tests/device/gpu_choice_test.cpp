// Launchers that show each rank all GPUs of its host, one, or some, as lists of what the ranks see.
#include "device/gpu_choice.h"

#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::device {
namespace {

using testing::ElementsAre;

/// GPUs `first` to `last` of a host.
SeenGpus gpus(int first, int last) {
  SeenGpus seen;
  for (int gpu = first; gpu <= last; ++gpu) seen.push_back(fmt::format("0000:{:02x}:00.0", gpu));
  return seen;
}

/// `ranks` ranks that see `visible` GPUs each: all of them the same ones, or each its own.
std::vector<SeenGpus> ranks_of_host(int ranks, int visible, bool own = false) {
  std::vector<SeenGpus> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    const int first = own ? rank * visible : 0;
    seen.push_back(gpus(first, first + visible - 1));
  }
  return seen;
}

/// The names of the GPUs that the ranks get.
std::vector<std::string> names_of(const std::vector<SeenGpus>& seen, const std::vector<int>& chosen) {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    names.push_back(seen[rank].at(static_cast<std::size_t>(chosen.at(rank))));
  }
  return names;
}

struct Choice {
  std::vector<SeenGpus> seen;
  int rank;
  int device;
};

class ChooseGpus : public testing::TestWithParam<Choice> {};

TEST_P(ChooseGpus, GivesEachLocalRankItsOwn) {
  const Choice& c = GetParam();
  for (const bool share : {false, true}) {
    EXPECT_EQ(choose_gpus(c.seen, share).at(static_cast<std::size_t>(c.rank)), c.device);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ChooseGpus,
                         testing::Values(Choice{ranks_of_host(1, 1), 0, 0},        // one rank, one GPU
                                         Choice{ranks_of_host(4, 1, true), 3, 0},  // srun --gpus-per-task=1
                                         Choice{ranks_of_host(4, 4), 0, 0},        // all ranks see all GPUs
                                         Choice{ranks_of_host(4, 4), 3, 3},        //
                                         Choice{ranks_of_host(2, 8), 1, 1},        // fewer ranks than GPUs
                                         Choice{ranks_of_host(1, 8), 0, 0}));

TEST(ChooseGpus, FewerGpusThanRanksAreRefusedWithTheNumbers) {
  for (const int ranks : {4, 8}) {
    try {
      static_cast<void>(choose_gpus(ranks_of_host(ranks, 2), /*share=*/false));
      ADD_FAILURE() << ranks << " ranks were given 2 GPUs";
    } catch (const base::ConfigError& error) {
      EXPECT_THAT(error.what(),
                  testing::HasSubstr(fmt::format("{} ranks were started on a host with 2 visible GPUs", ranks)));
    }
  }
}

TEST(ChooseGpus, NeighboursShareGpusThatAreTooFewWhereTheyMay) {
  EXPECT_THAT(choose_gpus(ranks_of_host(5, 2), /*share=*/true), ElementsAre(0, 0, 0, 1, 1));
}

// srun --gpu-bind=closest on a host of two sockets: each rank sees the GPUs of its own.
TEST(ChooseGpus, RanksThatSeeTheirSocketsGpusGetOneEach) {
  const std::vector<SeenGpus> four{gpus(0, 1), gpus(0, 1), gpus(2, 3), gpus(2, 3)};
  EXPECT_THAT(names_of(four, choose_gpus(four, /*share=*/false)),
              ElementsAre(gpus(0, 0)[0], gpus(1, 1)[0], gpus(2, 2)[0], gpus(3, 3)[0]));
  const std::vector<SeenGpus> dealt{gpus(0, 1), gpus(2, 3), gpus(0, 1),
                                    gpus(2, 3)};  // srun --distribution=block:cyclic
  EXPECT_THAT(names_of(dealt, choose_gpus(dealt, /*share=*/false)),
              testing::UnorderedElementsAre(gpus(0, 0)[0], gpus(1, 1)[0], gpus(2, 2)[0], gpus(3, 3)[0]));
}

TEST(ChooseGpus, RanksOfSeveralGpusEachTakeOneOfTheirs) {
  const std::vector<SeenGpus> seen = ranks_of_host(4, 2, /*own=*/true);  // srun --gpus-per-task=2
  const auto names = names_of(seen, choose_gpus(seen, /*share=*/false));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 4U);
}

TEST(ChooseGpus, ARankLeavesWhatOneThatSeesLessNeeds) {
  const std::vector<SeenGpus> one{gpus(0, 1), gpus(1, 2), gpus(0, 0)};
  EXPECT_THAT(names_of(one, choose_gpus(one, /*share=*/false)),
              ElementsAre(gpus(1, 1)[0], gpus(2, 2)[0], gpus(0, 0)[0]));
  const std::vector<SeenGpus> two{gpus(0, 2), gpus(0, 1), gpus(0, 1)};
  EXPECT_THAT(names_of(two, choose_gpus(two, /*share=*/false)),
              ElementsAre(gpus(2, 2)[0], gpus(1, 1)[0], gpus(0, 0)[0]));
}

TEST(ChooseGpus, AShortageIsThatOfTheRanksThatSeeTooFew) {
  const std::vector<SeenGpus> seen{gpus(0, 1), gpus(0, 1), gpus(0, 1), gpus(2, 7)};
  const GpuChoice choice = own_gpus(seen);
  ASSERT_TRUE(choice.shortage);
  EXPECT_EQ(choice.shortage->ranks, 3U);
  EXPECT_EQ(choice.shortage->gpus, 2U);
  EXPECT_THAT([&] { static_cast<void>(choose_gpus(seen, /*share=*/false)); },
              testing::ThrowsMessage<base::ConfigError>(
                  testing::StartsWith("3 ranks of a host are shown 2 of its GPUs together; show each rank all")));
  EXPECT_THAT(choose_gpus(seen, /*share=*/true), ElementsAre(0, 0, 1, 0));
}

// What one rank alone sees is its launcher's choice, also where another one sees the same: NCCL refuses that later.
TEST(ChooseGpus, TheOnlyOneThatARankSeesIsTaken) {
  EXPECT_THAT(choose_gpus(ranks_of_host(2, 1), /*share=*/false), ElementsAre(0, 0));
}

// Instances of one GPU have its bus number, and CUDA shows a process one of them.
TEST(ChooseGpus, InstancesAreNotTakenForOneGpu) {
  DeviceFacts facts;
  facts.gpus = {{.name = "NVIDIA A100-SXM4-40GB MIG 3g.20gb", .bus_id = "0000:18:00.0"}};
  const SeenGpus instance = seen_gpus(facts);
  EXPECT_THAT(instance, ElementsAre(""));
  EXPECT_THAT(choose_gpus(std::vector<SeenGpus>(3, instance), /*share=*/false), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace ddpm::device
