#include "plan/memory.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/report.h"
#include "plan/sizes.h"

namespace ddpm::plan {
namespace {

/// Bytes of model state per element, of a model whose size every number of ranks here divides.
double bytes_per_element(int64_t stage, bool mixed, int64_t averages, int64_t shard) {
  const ModelSizes model = model_of(10, 8 * kBlock);
  const Arrangement a{.ranks_per_node = 8,
                      .parallelism = {.zero_stage = stage, .global_size = 8, .dp_shard_size = stage == 0 ? 1 : shard},
                      .mixed_precision = mixed,
                      .averages = averages};
  return static_cast<double>(memory_of(model, a, 0).model_state()) / static_cast<double>(model.elements());
}

TEST(Memory, StateFollowsTheFormulas) {
  for (const double averages : {0.0, 1.0, 2.0}) {
    for (const double s : {1.0, 2.0, 4.0, 8.0}) {
      const auto state = [&](int64_t stage, bool mixed) {
        return bytes_per_element(stage, mixed, static_cast<int64_t>(averages), static_cast<int64_t>(s));
      };
      const double kept = 8 + 4 * averages;
      EXPECT_DOUBLE_EQ(state(0, false), 4 + 4 + kept);
      EXPECT_DOUBLE_EQ(state(1, false), 4 + 4 + kept / s);
      EXPECT_DOUBLE_EQ(state(2, false), 4 + 4 / s + kept / s);
      EXPECT_DOUBLE_EQ(state(3, false), (4 + 4 + kept) / s);
      EXPECT_DOUBLE_EQ(state(0, true), 2 + 4 + 4 + kept);
      EXPECT_DOUBLE_EQ(state(1, true), 2 + 4 + (4 + kept) / s);
      EXPECT_DOUBLE_EQ(state(2, true), 2 + 4 / s + (4 + kept) / s);
      EXPECT_DOUBLE_EQ(state(3, true), (2 + 4 + 4 + kept) / s);
    }
  }
}

TEST(Memory, OffloadMovesStateToTheHostOfAGpuAndNowhereWithoutOne) {
  const ModelSizes model = model_of(10, 8 * kBlock);
  Arrangement a{.ranks_per_node = 8, .parallelism = {.zero_stage = 3, .global_size = 8}, .averages = 1};
  const Memory inside = memory_of(model, a, 0);
  const int64_t part = model.elements() / 8;
  a.parallelism.offload = layout::Offload::optimizer;
  EXPECT_EQ(memory_of(model, a, 0).model_state(), inside.model_state() + 4 * part);  // master weights of their own
  EXPECT_GT(memory_of(model, a, 0).total(), inside.total());
  a.on_device = true;
  Arrangement kept = a;
  kept.parallelism.offload = layout::Offload::none;
  const int64_t on_gpu = memory_of(model, kept, 0).total() - model.image_bytes;  // offload records no step
  EXPECT_EQ(memory_of(model, a, 0).host, (4 + 8 + 4) * part);
  EXPECT_EQ(memory_of(model, a, 0).total(), on_gpu - (8 + 4) * part);
  a.parallelism.offload = layout::Offload::parameters;
  EXPECT_EQ(memory_of(model, a, 0).host, (4 + 8 + 4) * part);  // float32: weights and master weights are one
  EXPECT_EQ(memory_of(model, a, 0).total(), on_gpu - (4 + 8 + 4) * part);
  a.mixed_precision = true;
  EXPECT_EQ(memory_of(model, a, 0).host, (2 + 4 + 8 + 4) * part);
}

/// "112" or "38.5": GB of 7 billion parameters.
std::string gigabytes(double bytes_per_parameter) { return fmt::format("{:.4g}", 7.0 * bytes_per_parameter); }

// Stage by stage: 2 + 2 + 8 bytes as widely quoted, 2 + 2 + 12 of the ZeRO paper, and this program's.
TEST(Memory, TheTableInTheDocumentationHolds) {
  std::ifstream file(DDPM_TEST_DATA "/../../docs/plan.md");
  std::stringstream text;
  text << file.rdbuf();
  const double s = 4.0;
  const std::array<double, 4> quoted{2 + 2 + 8, 4 + 8 / s, 2 + 10 / s, 12 / s};
  const std::array<double, 4> paper{2 + 2 + 12, 4 + 12 / s, 2 + 14 / s, 16 / s};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const auto n = static_cast<int64_t>(stage);
    const std::string row =
        fmt::format("| {} | {} | {} | {} | {} |", stage, gigabytes(quoted[stage]), gigabytes(paper[stage]),
                    gigabytes(bytes_per_element(n, true, 1, 4)), gigabytes(bytes_per_element(n, false, 1, 4)));
    EXPECT_NE(text.str().find(row), std::string::npos) << row;
  }
  EXPECT_EQ(gigabytes(quoted[0]) + "/" + gigabytes(quoted[1]) + "/" + gigabytes(quoted[2]) + "/" + gigabytes(quoted[3]),
            "84/42/31.5/21");
}

TEST(Memory, PaddingIsCounted) {
  const ModelSizes model = model_of(3, 16);
  const Arrangement one;
  EXPECT_EQ(memory_of(model, one, 0).weights, 4 * kBlock);
  const Arrangement three{.ranks_per_node = 3, .parallelism = {.zero_stage = 2, .global_size = 3}};
  EXPECT_EQ(memory_of(model, three, 0).weights, 4 * (3 * kBlock));
  const Arrangement units{.ranks_per_node = 3, .parallelism = {.zero_stage = 3, .global_size = 3}};
  EXPECT_EQ(memory_of(model, units, 0).weights, 12 * layout::kFlatAlignment);
}

TEST(Memory, BuffersOfCommunication) {
  const ModelSizes model = model_of(4, 4 * kBlock);
  const double bucket_mib = 4.0 * static_cast<double>(4 * kBlock) / (1024.0 * 1024.0);
  Arrangement a{.ranks_per_node = 4, .parallelism = {.global_size = 4}, .bucket_mib = bucket_mib};
  EXPECT_EQ(memory_of(model, a, 0).buffers, 0);
  a.parallelism.gradient_compression = layout::GradientCompression::bf16;
  EXPECT_EQ(memory_of(model, a, 0).buffers, 4 * (4 * kBlock));
  a.parallelism.gradient_compression = layout::GradientCompression::none;
  a.parallelism.zero_stage = 2;
  EXPECT_EQ(memory_of(model, a, 0).buffers, 3 * (16 * kBlock));
  a.parallelism.zero_stage = 3;
  a.mixed_precision = true;
  EXPECT_EQ(memory_of(model, a, 0).buffers, 3 * (16 * kBlock) + 2 * (8 * kBlock));
}

TEST(Memory, GradientsThatWaitOnAGpuCount) {
  Arrangement a;
  const auto more_on_a_gpu = [&](const ModelSizes& model) {
    a.on_device = false;
    const int64_t on_cpu = memory_of(model, a, 0).buffers;
    a.on_device = true;
    return memory_of(model, a, 0).buffers - on_cpu;
  };
  ModelSizes small = model_of(3, kBlock);
  EXPECT_EQ(more_on_a_gpu(small), 4 * (3 * kBlock));
  ModelSizes large = model_of(100, 1'000'000);
  EXPECT_EQ(more_on_a_gpu(large), 16 << 20);
  // A GPU has two copies of the largest parameter in other orders, a CPU four times its numbers.
  small.largest_parameter = 100;
  EXPECT_EQ(more_on_a_gpu(small), 4 * (3 * kBlock - 100) + 800 - 1600);
  a.parallelism.reproducible = true;  // each is moved by itself
  EXPECT_EQ(more_on_a_gpu(large), 0);
}

TEST(Memory, ReproducibleSumsAreOneBufferMoreThanTheDepthOfTheirTree) {
  const ModelSizes model = model_of(1, kBlock);
  const auto buffers = [&](int64_t steps) {
    return memory_of(model, {.parallelism = {.reproducible = true, .global_size = steps}}, 0).buffers / (4 * kBlock);
  };
  EXPECT_EQ(buffers(1), 1);
  EXPECT_EQ(buffers(2), 2);
  EXPECT_EQ(buffers(8), 4);
}

TEST(Memory, GridsAndHeldImagesCount) {
  ModelSizes model = model_of(1, kBlock);
  Arrangement host{.held_bytes = 5'000'000};
  const int64_t images = memory_of(model, {}, 0).images;
  EXPECT_EQ(memory_of(model, host, 0).images, images + 5'000'000);
  model.grid_points = 1000;  // three float32 numbers each where the model computes, two on the host
  EXPECT_EQ(memory_of(model, host, 0).images, images + 5'020'000);
  host.on_device = true;
  EXPECT_EQ(memory_of(model, host, 0).images, images + 12'000 + 2 * model.image_bytes);  // two that are being copied
}

TEST(Memory, StoredBatchesOnAGpuCount) {
  const ModelSizes model = model_of(4, kBlock);
  const auto batches = [&](layout::Parallelism parallelism) {
    Arrangement a{.ranks_per_node = 4, .parallelism = std::move(parallelism)};
    a.parallelism.global_size = 32;
    a.parallelism.micro_size = 2;
    const int64_t on_host = memory_of(model, a, 0).images;
    a.on_device = true;
    return 1 + (memory_of(model, a, 0).images - on_host) / (2 * model.image_bytes);
  };
  EXPECT_EQ(batches({}), 2 + 4);  // those on their way, and those of a recorded step
  EXPECT_EQ(batches({.offload = layout::Offload::optimizer}), 2);
  EXPECT_EQ(batches({.tiles = 4}), 2);
  EXPECT_EQ(batches({.pipeline_size = 4}), 5);
}

// layout::one_forward_one_backward()
TEST(Memory, AStageKeepsNoMoreMicroBatchesThanAStepHas) {
  ModelSizes model = model_of(4, kBlock);
  model.activations = {{.kept = 800}, {.kept = 1600}, {.kept = 2400}, {.kept = 3200}};
  const auto memory = [&](int64_t micro_batches) {
    const Arrangement a{.ranks_per_node = 4,
                        .parallelism = {.global_size = 8 * micro_batches, .micro_size = 8, .pipeline_size = 4},
                        .on_device = true};
    return memory_of(model, a, 0);
  };
  EXPECT_EQ(memory(1).activations, 800);
  EXPECT_EQ(memory(3).activations, 2400);
  EXPECT_EQ(memory(4).activations, 3200);
  EXPECT_EQ(memory(9).activations, 3200);
  EXPECT_EQ(memory(4).images - memory(2).images, int64_t{2} * 8 * model.image_bytes);
  EXPECT_EQ(memory(9).images, memory(4).images);
}

TEST(Memory, ACheckpointOnAGpuOrdersOneTensorAtATime) {
  ModelSizes model = model_of(4, kBlock);
  model.largest_parameter = 100;
  EXPECT_EQ(memory_of(model, {.on_device = true}, 0).snapshot, 400);
}

TEST(Memory, ASnapshotIsTheShareOfTheRankThatSavesMost) {
  ModelSizes model = model_of(4, kBlock);
  model.held_parameters = 3 * kBlock;  // the larger of two stages
  Arrangement a{.ranks_per_node = 4, .parallelism = {.global_size = 4, .pipeline_size = 2}, .averages = 1};
  EXPECT_EQ(memory_of(model, a, 0).snapshot, int64_t{4} * 4 * 3 * kBlock / 2);
  EXPECT_EQ(memory_of(model, a, 0).saved, 0);
  a.saves_while_training = true;
  EXPECT_EQ(memory_of(model, a, 0).saved, int64_t{4} * 4 * 3 * kBlock / 2);
  a.parallelism.pipeline_size = 1;
  a.parallelism.tensor_size = 4;
  EXPECT_EQ(memory_of(model, a, 0).snapshot, int64_t{4} * 4 * 3 * kBlock) << "one rank saves what is not cut";
  a.parallelism.tensor_size = 1;
  a.parallelism.tiles = 4;
  EXPECT_EQ(memory_of(model, a, 0).snapshot, int64_t{4} * 4 * 3 * kBlock / 4) << "tiles hold the same parameters";
}

TEST(HostMemory, BatchesOnTheirWayArePinnedWithTheirStep) {
  ModelSizes model = model_of(4, kBlock);
  model.image_bytes = 1024;
  const auto batches = [&](const layout::Parallelism& parallelism) {
    return memory_of(model, {.ranks_per_node = 4, .parallelism = parallelism, .on_device = true}, 0).beside.batches;
  };
  EXPECT_EQ(batches({.global_size = 32, .micro_size = 2}), 2 * 4096);  // 16 bytes and 2 images, rounded up
  EXPECT_EQ(batches({.global_size = 32, .micro_size = 3}), 2 * 4096);
  EXPECT_EQ(batches({.global_size = 32, .micro_size = 2, .pipeline_size = 4}), 5 * 4096);
  EXPECT_EQ(memory_of(model, {}, 0).beside.total(), 0) << "of a host that computes";
}

TEST(HostMemory, HoldsWhatOffloadPutsThere) {
  const ModelSizes model = model_of(16, 64 * kBlock);
  const int64_t part = int64_t{16} * 64 * kBlock / 4;  // 2^20 elements
  Arrangement a{.ranks_per_node = 4,
                .parallelism = {.zero_stage = 1, .offload = layout::Offload::optimizer, .global_size = 4},
                .averages = 1,
                .on_device = true};
  const auto host = [&] { return memory_of(model, a, 0).beside; };
  EXPECT_EQ(host().state, (4 + 8 + 4) * part);
  EXPECT_EQ(host().weights, 4 * part);
  EXPECT_EQ(host().chunks, int64_t{3} * 4 * part);  // one bucket, and less than a chunk
  a.mixed_precision = true;
  EXPECT_EQ(host().chunks, int64_t{3} * (4 + 2) * part);
  a.parallelism.zero_stage = 3;
  a.parallelism.offload = layout::Offload::parameters;
  EXPECT_EQ(host().weights, (2 + 4) * part);
  EXPECT_EQ(host().state, (2 + 4 + 8 + 4) * part);
  EXPECT_EQ(host().chunks, int64_t{3} * 4 * part / 16) << "each unit is a run of its own";
  a.parallelism.offload = layout::Offload::none;
  EXPECT_EQ(host().state + host().chunks, 0);
}

TEST(HostMemory, SnapshotsOfOffloadedStateAreNotPinned) {
  const ModelSizes model = model_of(1, kBlock);
  Arrangement a{.averages = 1, .on_device = true};
  a.parallelism.offload = layout::Offload::optimizer;
  const HostMemory host = memory_of(model, a, 0).beside;
  EXPECT_EQ(host.snapshot, int64_t{4} * 4 * kBlock);
  EXPECT_EQ(host.pinned, host.batches + host.weights + host.chunks);
}

TEST(HostMemory, SnapshotsAreFilledBlocks) {
  ModelSizes model = model_of(9, 1 << 20);
  model.largest_parameter = 1 << 20;  // blocks of 16 MiB, of which 4 × 36 MiB take 9
  const Memory memory = memory_of(model, {.averages = 1, .on_device = true}, 0);
  EXPECT_EQ(memory.beside.snapshot, int64_t{4} * 9 * 4 << 20);
  model.held_parameters += 1;
  EXPECT_EQ(memory_of(model, {.averages = 1, .on_device = true}, 0).beside.snapshot, memory.beside.snapshot + 16);
}

TEST(HostMemory, GrowsByReadImagesAndGrids) {
  ModelSizes model = model_of(1, kBlock);
  model.grid_points = 1000;
  const Arrangement a{.on_device = true, .read_ahead_bytes = 70, .held_bytes = 5};
  const HostMemory host = memory_of(model, a, 0).beside;
  EXPECT_EQ(host.images, 8075);
  EXPECT_EQ(host.total(), host.batches + host.images + host.snapshot);
  EXPECT_EQ(host.pinned, host.batches + host.snapshot);
}

TEST(HostMemory, IsSaidByTheNode) {
  Request request{.model = model_of(20, 100 * kBlock),
                  .given = {.nodes = 2, .ranks_per_node = 4, .parallelism = {.global_size = 64, .micro_size = 8}},
                  .given_refusal = "",
                  .machine = round_machine(),
                  .process_bytes = 0,
                  .limit_bytes = std::nullopt};
  const auto text = [&] { return text_of(request, candidates(request)); };
  const auto given = [&] { return json_of(request, candidates(request)).at("given"); };
  EXPECT_EQ(text().find("of host memory per node"), std::string::npos) << text();
  EXPECT_FALSE(given().contains("host_memory_bytes"));
  request.given.on_device = true;
  const Candidate chosen = predict(request, request.given);
  EXPECT_EQ(chosen.host_bytes(), 4 * chosen.memory.beside.total());
  EXPECT_NE(text().find(fmt::format("{} of host memory per node beside the programs, {} of it pinned",
                                    size_text(chosen.host_bytes()), size_text(4 * chosen.memory.beside.pinned))),
            std::string::npos)
      << text();
  EXPECT_EQ(given().at("host_memory_per_node_bytes").get<int64_t>(), chosen.host_bytes());
  EXPECT_EQ(given().at("host_memory_bytes").at("snapshot").get<int64_t>(), chosen.memory.beside.snapshot);
  EXPECT_NE(memory_text(chosen.memory).find("of the host's memory, "), std::string::npos);
}

TEST(Memory, ActivationsGrowWithTheMicroBatch) {
  ModelSizes model = model_of(1, kBlock);
  model.workspace_share = 0.25;
  const auto memory = [&](int64_t micro) {
    return memory_of(model, {.parallelism = {.global_size = 16, .micro_size = micro}}, 7);
  };
  EXPECT_EQ(memory(16).activations, 1'600'000);
  EXPECT_EQ(memory(4).activations, 400'000);
  EXPECT_EQ(memory(16).images, 4 * memory(4).images);
  EXPECT_EQ(memory(4).process, 7);
  EXPECT_EQ(memory(4).workspace, 100'000);
  model.activations.back().float_copies = 8 * model.activation_images;
  EXPECT_EQ(memory(4).workspace, 100'032);
  int64_t sum = 0;
  for (const auto& [kind, bytes] : memory(4).by_kind()) sum += bytes;
  EXPECT_EQ(sum, memory(4).total());
}

TEST(Memory, ActivationsOfVeryManyImagesDoNotOverflow) {
  ModelSizes model = model_of(1, kBlock);
  model.workspace_share = 0.25;
  model.activation_images = 400'000;
  const int64_t kept = 100'000'000 * model.activation_images;
  model.activations = {{.kept = kept, .all = kept, .float_copies = kept}};
  const auto memory = [&](int64_t micro) {
    return memory_of(model, {.parallelism = {.global_size = 400'000, .micro_size = micro}}, 0);
  };
  EXPECT_EQ(memory(400'000).activations, kept);
  EXPECT_EQ(memory(400'000).workspace, kept / 4 + kept);
  EXPECT_EQ(memory(200'000).activations, kept / 2);
}

TEST(Memory, MoreRanksThanImagesMakeNoAccumulationSteps) {
  constexpr int64_t kMany = int64_t{1} << 20;
  constexpr int64_t kImages = int64_t{1} << 24;
  const Arrangement a{
      .nodes = kMany, .ranks_per_node = kMany, .parallelism = {.global_size = kImages, .micro_size = kImages}};
  EXPECT_EQ(a.accumulation_steps(), 0);
}

}  // namespace
}  // namespace ddpm::plan
