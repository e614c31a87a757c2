#include "checkpoint/store.h"

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store_fixture.h"
#include "support/sticky_files.h"

namespace ddpm::checkpoint {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Store : public StoreTest {};

TEST_F(Store, FolderHoldsOneShardPerRankAndTheManifest) {
  const SaveReport report = save_step(store_, world(), 1000);
  EXPECT_EQ(report.directory, checkpoints() / "step-00001000");
  const int ranks = world().size();
  const std::vector<std::string> found = files_->list(report.directory);
  ASSERT_EQ(std::ssize(found), ranks + 1);
  EXPECT_EQ(found.front(), "MANIFEST.json");
  int64_t bytes = 0;
  const Manifest manifest = read_manifest(*files_, report.directory);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    EXPECT_EQ(found[i + 1], fmt::format("shard-{:05}-of-{:05}.safetensors", rank, ranks));
    EXPECT_EQ(manifest.files[i].name, found[i + 1]);
    EXPECT_EQ(manifest.files[i].sha256, base::sha256_file(report.directory / found[i + 1]));
    bytes += static_cast<int64_t>(files_->file_size(report.directory / found[i + 1]));
  }
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_EQ(manifest.step, 1000);
  EXPECT_EQ(manifest.world_size, ranks);
  EXPECT_EQ(manifest.config_hash, "c0");
  EXPECT_EQ(manifest.dataset_hash, "d0");
  EXPECT_EQ(manifest.state, (base::Json{{"images_seen", 64000}}));
  EXPECT_EQ(manifest.tensors.size(), known_tensors().size());
  EXPECT_EQ(test::read_text(run_ / "LATEST"), "step-00001000\n");
  EXPECT_THAT(names(), ElementsAre("step-00001000"));
}

TEST_F(Store, ATensorWholeOnOneRankKeepsItsShapeInTheShard) {
  Elements elements;
  const KnownTensor tensor = known_tensors().front();
  if (world().rank() == world().size() - 1) elements.add_whole(tensor);
  elements.fill(1);
  const SaveReport report = store_.save({.step = 1, .slices = elements.to_save()});
  const SafetensorsFile shard(report.directory / shard_name(world().size() - 1, world().size()));
  ASSERT_NE(shard.header().find(tensor.name), nullptr);
  EXPECT_EQ(shard.header().find(tensor.name)->shape, tensor.shape);
}

TEST_F(Store, FindsTheNewestAndNothingInAnEmptyRun) {
  EXPECT_FALSE(store_.find());
  for (const int64_t step : {10, 20, 30}) save_step(store_, world(), step);
  const auto checkpoint = store_.find();
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->manifest.step, 30);
  expect_loads(store_, *checkpoint, 30);
  expect_loads(store_, store_.open(step_folder(20)), 20);
}

TEST_F(Store, LatestIsOnlyAHint) {
  for (const int64_t step : {10, 20}) save_step(store_, world(), step);
  for (const std::string hint : {"step-00000010\n", "step-00000099\n", "", "../../etc"}) {
    on_disk([&] { test::write_text(run_ / "LATEST", hint); });
    EXPECT_EQ(store_.find()->manifest.step, 20) << hint;
  }
  on_disk([&] { files_->remove(run_ / "LATEST"); });
  EXPECT_EQ(store_.find()->manifest.step, 20);
}

TEST_F(Store, NewerCheckpointsAreSetAsideNotRemoved) {
  for (const int64_t step : {10, 20, 30}) save_step(store_, world(), step);
  store_.set_aside_newer(10);
  EXPECT_EQ(store_.find()->manifest.step, 10);
  EXPECT_EQ(test::read_text(run_ / "LATEST"), "step-00000010\n");
  EXPECT_THAT(names(), ElementsAre(StartsWith("abandoned-step-00000020-"), StartsWith("abandoned-step-00000030-"),
                                   "step-00000010"));
  save_step(store_, world(), 15);
  EXPECT_EQ(store_.find()->manifest.step, 15);
  expect_loads(store_, store_.open(checkpoints() / names().front()), 20);
}

TEST_F(Store, LatestNamesNoCheckpointThatIsSetAside) {
  for (const int64_t step : {10, 20, 30}) save_step(store_, world(), step);
  // The run was resumed from a checkpoint outside of its folder.
  store_.set_aside_newer(15);
  EXPECT_EQ(test::read_text(run_ / "LATEST"), "step-00000010\n");
  comm::barrier(world());
  store_.set_aside_newer(5);
  EXPECT_FALSE(std::filesystem::exists(run_ / "LATEST"));
  EXPECT_THAT(names(), Each(StartsWith("abandoned-step-")));
  EXPECT_FALSE(store_.find());
  store_.set_aside_newer(5);  // nothing is left to do
}

TEST_F(Store, RetentionComesAfterTheCommit) {
  for (int64_t step = 10; step <= 70; step += 10) {
    save_step(store_, world(), step, {.keep_latest = 2, .keep_every = 40, .pinned = {10}});
  }
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000040", "step-00000060", "step-00000070"));
}

TEST_F(Store, RetentionCountsOnlyReadableCheckpoints) {
  for (const int64_t step : {10, 20, 30}) save_step(store_, world(), step);
  on_disk([&] { files_->remove(step_folder(30) / "MANIFEST.json"); });
  save_step(store_, world(), 40, {.keep_latest = 2});
  EXPECT_THAT(names(), ElementsAre("step-00000020", "step-00000030", "step-00000040"));
}

TEST_F(Store, AStepSavedAgainReplacesTheOlderOne) {
  save_step(store_, world(), 10);
  Elements elements;
  if (world().rank() == 0) elements.add_whole({"other", {3}});
  elements.fill(10);
  store_.save({.step = 10, .slices = elements.to_save()});
  EXPECT_THAT(names(), ElementsAre("step-00000010"));
  EXPECT_NE(store_.find()->manifest.find("other"), nullptr);
}

TEST_F(Store, AnOlderOneThatCannotBeRemovedIsReplacedAllTheSame) {
  save_step(store_, world(), 10);
  on_disk([&] { test::write_text(step_folder(10) / test::kStuck, ""); });
  test::StickyFiles files;
  CheckpointStore store(files, world(), run_, logger_);
  save_step(store, world(), 10);
  EXPECT_THAT(names(), ElementsAre(StartsWith(".old-step-00000010-"), "step-00000010"));
  files.let_go();
  save_step(store, world(), 20);
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000020"));
}

TEST_F(Store, LeftOversOfDeadRunsGoAtTheNextSave) {
  on_disk([&] {
    std::filesystem::create_directories(checkpoints() / ".tmp-step-00000010-0123456789abcdef");
    test::write_text(checkpoints() / ".tmp-step-00000010-0123456789abcdef" / "shard-00000-of-00001.safetensors",
                     "half");
  });
  EXPECT_FALSE(store_.find());
  EXPECT_EQ(names().size(), 1U);  // reading changes nothing: the writer may be alive
  save_step(store_, world(), 20);
  EXPECT_THAT(names(), ElementsAre("step-00000020"));
}

TEST_F(Store, AFailureOnOneRankIsThrownByAllAndPublishesNothing) {
  save_step(store_, world(), 10);
  Elements elements;
  for (const KnownTensor& tensor : known_tensors()) elements.add_part(tensor, world().size(), world().rank());
  PendingSave pending = store_.begin({.step = 20, .slices = elements.to_save()});
  store_.write_shard(pending);
  const bool fails = world().rank() == world().size() - 1;
  try {
    store_.commit(std::move(pending), fails ? "no space left on device" : "");
    ADD_FAILURE() << "committed";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_THAT(error.what(), HasSubstr("no space left on device"));
  }
  comm::barrier(world());
  EXPECT_THAT(names(), ElementsAre("step-00000010"));
  EXPECT_EQ(store_.find()->manifest.step, 10);
}

TEST_F(Store, SlicesThatLeaveAGapAreNotPublished) {
  Elements elements;
  elements.add_part(known_tensors().front(), world().size() + 1, world().rank());  // nobody has the last part
  EXPECT_THROW(store_.save({.step = 10, .slices = elements.to_save()}), comm::AgreedError);
  comm::barrier(world());
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Store, ListShowsSizesAndProblems) {
  const int64_t bytes = save_step(store_, world(), 10).bytes;
  save_step(store_, world(), 20);
  on_disk([&] {
    const base::Path shard = step_folder(10) / shard_name(0, world().size());
    std::string text = test::read_text(shard);
    text.back() = static_cast<char>(text.back() ^ 1);
    test::write_text(shard, text);
    files_->remove(step_folder(20) / shard_name(0, world().size()));
  });
  const std::vector<CheckpointInfo> shallow = store_.list(false);
  ASSERT_EQ(shallow.size(), 2U);
  EXPECT_EQ(shallow[0].step, 10);
  EXPECT_EQ(shallow[0].bytes, bytes);
  EXPECT_EQ(shallow[0].problem, "");
  EXPECT_NE(shallow[1].problem, "");
  EXPECT_THAT(store_.list(true)[0].problem, HasSubstr("SHA-256"));
  EXPECT_EQ(newest_of(shallow), shallow.data());
  EXPECT_EQ(newest_of(store_.list(true)), nullptr);
}

// This is the rule of find(): a damaged one is passed over, one that may be whole is not.
TEST_F(Store, TheNewestIsTheOneThatFindTakes) {
  std::vector<CheckpointInfo> found(3);
  EXPECT_EQ(newest_of({}), nullptr);
  EXPECT_EQ(newest_of(found), &found[2]);
  found[2].problem = "damaged";
  EXPECT_EQ(newest_of(found), &found[1]);
  found[1].problem = "no access";
  found[1].unreadable = true;
  EXPECT_EQ(newest_of(found), nullptr);
  found[1].unreadable = false;
  found[1].newer = true;
  EXPECT_EQ(newest_of(found), nullptr);
  found[1].newer = false;
  EXPECT_EQ(newest_of(found), found.data());
}

}  // namespace
}  // namespace ddpm::checkpoint
