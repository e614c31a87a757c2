// `ddpm checkpoint reshard` keeps the state in another number of shards, whichever ranks write them.
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "checkpoint/reshard.h"
#include "checkpoint/reshard_run.h"
#include "checkpoint/store_fixture.h"

namespace ddpm::checkpoint {
namespace {

class ReshardShards : public StoreTest {
 protected:
  Checkpoint saved() {
    save_step(store_, world(), 10);
    return store_.open(step_folder(10));
  }
  [[nodiscard]] base::Path other(const std::string& name) const { return run_ / name; }
  void make(const base::Path& folder) {
    on_disk([&] { files_->create_directories(folder); });
  }
};

TEST_F(ReshardShards, AnyNumberHoldsTheSameStateAndBytes) {
  const Checkpoint original = saved();
  for (const int64_t shards : {1, 2, 3, 7, 64}) {
    SCOPED_TRACE(shards);
    const base::Path run = other(std::to_string(shards));
    make(run);
    CheckpointStore target(*files_, world(), run, logger_);
    const SaveReport report = reshard(original, shards, *files_, world(), target);
    const auto found = target.find();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->directory, report.directory);
    EXPECT_EQ(found->manifest.step, 10);
    EXPECT_EQ(found->manifest.world_size, shards);
    EXPECT_EQ(std::ssize(found->manifest.files), shards);
    EXPECT_EQ(found->manifest.state, original.manifest.state);
    EXPECT_EQ(found->manifest.config_hash, "c0");
    EXPECT_EQ(found->manifest.dataset_hash, "d0");
    EXPECT_EQ(report.bytes, total_bytes(found->manifest));
    expect_loads(target, *found, 10);
  }
}

TEST_F(ReshardShards, WhoWritesThemDoesNotShow) {
  const Checkpoint original = saved();
  make(other("all"));
  CheckpointStore target(*files_, world(), other("all"), logger_);
  const base::Path by_all = reshard(original, 5, *files_, world(), target).directory;
  const auto self = world().split(world().rank(), 0);
  if (world().rank() == 0) {
    files_->create_directories(other("one"));
    CheckpointStore own(*files_, *self, other("one"), logger_);
    const base::Path by_one = reshard(original, 5, *files_, *self, own).directory;
    const std::vector<std::string> names_of_all = files_->list(by_all);
    EXPECT_EQ(files_->list(by_one), names_of_all);
    for (const std::string& name : names_of_all) {
      EXPECT_EQ(test::read_text(by_one / name), test::read_text(by_all / name)) << name;
    }
  }
}

TEST_F(ReshardShards, AndBackAgainGivesTheFirstState) {
  Checkpoint from = saved();
  for (const int64_t shards : {4, 1, 9, 2}) {
    const base::Path run = other("chain-" + std::to_string(shards));
    make(run);
    CheckpointStore target(*files_, world(), run, logger_);
    reshard(from, shards, *files_, world(), target);
    from = target.find().value();
    expect_loads(target, from, 10);
  }
}

TEST_F(ReshardShards, ATensorLongerThanAPieceOfAnyTypeAndAnyBox) {
  // Columns on one slice each; 5 MiB of 8-byte elements in pieces of 4 MiB, which cross the columns.
  const int64_t rows = 1024;
  const int64_t width = 640;
  std::vector<int64_t> whole(static_cast<std::size_t>(rows * width));
  std::iota(whole.begin(), whole.end(), int64_t{1} << 40);
  const TensorSlice all = whole_slice("w", base::DType::i64, {rows, width});
  SaveRequest request{.step = 3};
  std::vector<std::vector<int64_t>> parts;
  parts.reserve(2);
  for (const layout::Range columns : {layout::Range{0, 200}, layout::Range{200, width}}) {
    const layout::Range mine = layout::even_part(rows * columns.size(), world().size(), world().rank());
    const TensorSlice slice{"w", base::DType::i64, {rows, width}, {{0, rows}, columns}, mine};
    auto& part = parts.emplace_back(static_cast<std::size_t>(mine.size()));
    copy_intersection(all, std::as_bytes(std::span(whole)), slice, std::as_writable_bytes(std::span(part)));
    request.slices.emplace_back(slice, std::as_bytes(std::span(part)));
  }
  store_.save(std::move(request));
  make(other("new"));
  CheckpointStore target(*files_, world(), other("new"), logger_);
  reshard(store_.open(step_folder(3)), 1, *files_, world(), target);
  std::vector<int64_t> read(whole.size());
  const std::vector<WantedSlice> wanted = {{all, std::as_writable_bytes(std::span(read))}};
  target.load(target.find().value(), wanted);
  EXPECT_TRUE(read == whole);
}

TEST_F(ReshardShards, ShardsAreEquallyLargeAndCoverEachElementOnce) {
  const Manifest manifest = saved().manifest;
  int64_t total = 0;
  for (const KnownTensor& tensor : known_tensors()) total += 4 * element_count(tensor.shape, tensor.name);
  for (const int64_t shards : {1, 2, 3, 10, 64, 1000}) {
    std::map<std::string, std::vector<TensorSlice>> slices;
    for (int64_t index = 0; index < shards; ++index) {
      int64_t bytes = 0;
      for (TensorSlice& slice : shard_slices(manifest, shards, index)) {
        bytes += byte_count(slice);
        slices[slice.name].push_back(std::move(slice));
      }
      EXPECT_LE(std::abs(bytes - total / shards), 4);
    }
    for (const KnownTensor& tensor : known_tensors()) {
      EXPECT_NO_THROW(check_exact_cover(tensor.name, tensor.shape, slices[tensor.name]));
    }
  }
}

class ReshardRun : public ReshardShards {
 protected:
  SaveReport into(const Checkpoint& checkpoint, const base::Path& output) {
    return reshard_run(checkpoint, {.run = run_, .output = output, .shards = 3}, *files_, world(), logger_);
  }
  void expect_refused(const Checkpoint& checkpoint, const base::Path& output, const std::string& said) {
    const std::vector<std::string> before = files_->list(run_);
    comm::barrier(world());
    try {
      into(checkpoint, output);
      ADD_FAILURE() << output;
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
    comm::barrier(world());
    EXPECT_EQ(files_->list(run_), before);
  }
};

TEST_F(ReshardRun, MakesARunFolderWithTheConfiguration) {
  const Checkpoint original = saved();
  on_disk([&] {
    test::write_text(run_ / "config.toml", "[run]\n");
    files_->create_directory(run_ / ".new.tmp-0123456789abcdef");  // left by a process that was killed
  });
  const SaveReport report = into(original, other("new") / "");
  EXPECT_EQ(report.directory, other("new") / "checkpoints" / "step-00000010");
  EXPECT_EQ(test::read_text(other("new") / "config.toml"), "[run]\n");
  EXPECT_FALSE(files_->exists(run_ / ".new.tmp-0123456789abcdef"));
  CheckpointStore made(*files_, world(), other("new"), logger_);
  const auto found = made.find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->manifest.world_size, 3);
  expect_loads(made, *found, 10);
  expect_refused(original, other("new"), "is already there");
  expect_refused(original, checkpoints() / "inside" / "run", "lies among the checkpoints of the run");
}

TEST_F(ReshardRun, LeavesNothingWhereItFails) {
  const Checkpoint original = saved();
  on_disk([&] { files_->remove(step_folder(10) / shard_name(0, world().size())); });
  expect_refused(original, other("new"), shard_name(0, world().size()));
}

}  // namespace
}  // namespace ddpm::checkpoint
