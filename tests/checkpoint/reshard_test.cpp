// A checkpoint is read back whole by any number of ranks and with any cut, however it was written.
#include <gmock/gmock.h>

#include "checkpoint/store_fixture.h"

namespace ddpm::checkpoint {
namespace {

class Reshard : public StoreTest {
 protected:
  /// This rank on its own: a run of one rank.
  static std::unique_ptr<comm::Communicator> alone() { return world().split(world().rank(), 0); }
};

TEST_F(Reshard, SavedByAllRanksLoadedByOne) {
  save_step(store_, world(), 10);
  const auto self = alone();
  CheckpointStore own(*files_, *self, run_, logger_);
  const auto checkpoint = own.find();
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->manifest.world_size, world().size());
  expect_loads(own, *checkpoint, 10);
}

TEST_F(Reshard, SavedByOneRankLoadedInPartsByAll) {
  const auto self = alone();
  if (world().rank() == 0) {
    CheckpointStore own(*files_, *self, run_, logger_);
    save_step(own, *self, 10);
  }
  comm::barrier(world());
  const auto checkpoint = store_.find();
  ASSERT_TRUE(checkpoint);
  Elements elements;
  for (const KnownTensor& tensor : known_tensors()) elements.add_part(tensor, world().size(), world().rank());
  store_.load(*checkpoint, elements.to_load());
  elements.expect(10);
}

TEST_F(Reshard, SeveralPiecesOfOneTensorOnOneRank) {
  Elements elements;
  for (const KnownTensor& tensor : known_tensors()) {
    for (int64_t piece = 0; piece < 4; ++piece) {  // piece p of rank r is part p·ranks + r: each rank's lie apart
      elements.add_part(tensor, 4 * world().size(), piece * world().size() + world().rank());
    }
  }
  elements.fill(10);
  store_.save({.step = 10, .config_hash = "c0", .dataset_hash = "d0", .slices = elements.to_save()});
  const auto checkpoint = store_.find();
  ASSERT_TRUE(checkpoint);
  for (int64_t parts = 1; parts <= 5; ++parts) {
    Elements wanted;
    for (const KnownTensor& tensor : known_tensors()) {
      for (int64_t part = 0; part < parts; ++part) wanted.add_part(tensor, parts, part);
    }
    store_.load(*checkpoint, wanted.to_load());
    wanted.expect(10);
  }
}

/// Columns [columns) of a matrix, then a flat range of them.
TensorSlice columns_of(const KnownTensor& matrix, layout::Range columns, layout::Range flat) {
  return {matrix.name, base::DType::f32, matrix.shape, {{0, matrix.shape[0]}, columns}, flat};
}

TEST_F(Reshard, ColumnsCutByZeroReadAsRowsAndTheReverse) {
  const KnownTensor matrix{"w", {6, 10}};
  const int64_t ranks = world().size();
  const int64_t rank = world().rank();
  std::vector<float> whole(60);
  for (int64_t e = 0; e < 60; ++e) whole[static_cast<std::size_t>(e)] = matrix.value(3, e);
  const TensorSlice all = whole_slice("w", base::DType::f32, matrix.shape);

  // Two column halves, each cut over all ranks.
  std::vector<TensorSlice> slices;
  for (const layout::Range columns : {layout::Range{0, 4}, layout::Range{4, 10}}) {
    slices.push_back(columns_of(matrix, columns, layout::even_part(6 * columns.size(), ranks, rank)));
  }
  std::vector<std::vector<float>> values;
  SaveRequest request{.step = 3, .config_hash = "c0", .dataset_hash = "d0"};
  for (const TensorSlice& slice : slices) {
    auto& part = values.emplace_back(static_cast<std::size_t>(slice.flat.size()));
    copy_intersection(all, std::as_bytes(std::span(whole)), slice, std::as_writable_bytes(std::span(part)));
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    request.slices.emplace_back(slices[i], std::as_bytes(std::span(values[i])));
  }
  store_.save(std::move(request));

  const auto checkpoint = store_.find();
  ASSERT_TRUE(checkpoint);
  for (int64_t row = 0; row < 6; ++row) {
    const TensorSlice wanted{"w", base::DType::f32, matrix.shape, {{row, row + 1}, {1, 9}}, {0, 8}};
    std::vector<float> read(8, -1.0F);
    const std::vector<WantedSlice> one = {{wanted, std::as_writable_bytes(std::span(read))}};
    store_.load(*checkpoint, one);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), whole.begin() + row * 10 + 1)) << "row " << row;
  }
}

TEST_F(Reshard, RanksMayLoadDifferentTensorsOrNone) {
  save_step(store_, world(), 10);
  const auto checkpoint = store_.find();
  ASSERT_TRUE(checkpoint);
  Elements elements;
  if (world().rank() != 1) elements.add_whole(known_tensors().front());
  store_.load(*checkpoint, elements.to_load());
  elements.expect(10);
}

TEST_F(Reshard, ATensorThatIsMissingOrOtherwiseShapedIsRefusedOnAllRanks) {
  save_step(store_, world(), 10);
  const auto checkpoint = store_.find();
  ASSERT_TRUE(checkpoint);
  const auto problem = [&](TensorSlice slice) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(byte_count(slice)));
    std::vector<WantedSlice> wanted;
    if (world().rank() == world().size() - 1) wanted.emplace_back(std::move(slice), bytes);
    try {
      store_.load(*checkpoint, wanted);
      return std::string();
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      return std::string(error.what());
    }
  };
  EXPECT_THAT(problem(whole_slice("absent", base::DType::f32, {1})), testing::HasSubstr("no tensor 'absent'"));
  EXPECT_THAT(problem(whole_slice("model/conv_in.bias", base::DType::f32, {4})),
              testing::HasSubstr("is F32 [8], wanted F32 [4]"));
  EXPECT_THAT(problem(whole_slice("model/conv_in.bias", base::DType::bf16, {8})),
              testing::HasSubstr("is F32 [8], wanted BF16 [8]"));
}

}  // namespace
}  // namespace ddpm::checkpoint
