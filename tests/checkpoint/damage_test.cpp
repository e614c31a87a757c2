// Whatever happens to a file of a checkpoint, it is noticed: an older one is taken, never the damaged one.
#include <chrono>
#include <filesystem>

#include <gmock/gmock.h>

#include "checkpoint/store_fixture.h"

namespace ddpm::checkpoint {
namespace {

class Damage : public StoreTest {
 protected:
  void SetUp() override {
    save_step(store_, world(), 10);
    save_step(store_, world(), 20);
  }
  /// Replaces a file of step 20 by what `change` makes of it, requires that 20 is refused and 10 taken, and undoes it.
  template <typename Change>
  void expect_noticed(const std::string& name, Change&& change) {
    const base::Path path = step_folder(20) / name;
    const std::string good = test::read_text(path);
    comm::barrier(world());
    on_disk([&] {
      const std::optional<std::string> text = change(good);
      text ? test::write_text(path, *text) : files_->remove(path);
    });
    const auto checkpoint = store_.find();
    ASSERT_TRUE(checkpoint);
    EXPECT_EQ(checkpoint->manifest.step, 10) << name;
    try {
      const Checkpoint damaged = store_.open(step_folder(20));
      ADD_FAILURE() << name << " opened";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_THAT(error.what(), testing::HasSubstr("step-00000020"));
    }
    on_disk([&] { test::write_text(path, good); });
  }
  [[nodiscard]] std::vector<std::string> file_names() const { return files_->list(step_folder(20)); }
};

TEST_F(Damage, AFlippedBitAnywhereInAnyFile) {
  for (const std::string& name : file_names()) {
    const auto size = files_->file_size(step_folder(20) / name);
    for (const uint64_t at : {uint64_t{0}, uint64_t{7}, uint64_t{30}, size / 2, size - 70, size - 1}) {
      expect_noticed(name, [&](std::string text) -> std::optional<std::string> {
        text[at] = static_cast<char>(text[at] ^ 4);
        return text;
      });
    }
  }
}

TEST_F(Damage, AMissingShortenedOrLengthenedFile) {
  for (const std::string& name : file_names()) {
    expect_noticed(name, [](const std::string&) { return std::nullopt; });
    expect_noticed(name, [](const std::string&) { return std::optional(std::string()); });
    expect_noticed(name, [](const std::string& text) { return std::optional(text.substr(0, text.size() - 1)); });
    expect_noticed(name, [](const std::string& text) { return std::optional(text + "\n"); });
  }
}

TEST_F(Damage, AManifestOfAnotherStep) {
  const std::string other = test::read_text(step_folder(10) / "MANIFEST.json");
  expect_noticed("MANIFEST.json", [&](const std::string&) { return std::optional(other); });
}

TEST_F(Damage, WithEveryCheckpointDamagedNothingIsLoadedAndTheRunDoesNotStartAfresh) {
  on_disk([&] {
    for (const int64_t step : {10, 20}) files_->remove(step_folder(step) / shard_name(0, world().size()));
  });
  try {
    const auto checkpoint = store_.find();
    ADD_FAILURE() << "found one";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_THAT(error.what(), testing::HasSubstr("no readable checkpoint among 2 (newest"));
  }
}

TEST_F(Damage, AFileThatChangesAfterItWasComparedIsNoticed) {
  for (const std::string& name : file_names()) {
    if (name == kManifestName) continue;
    const base::Path path = step_folder(20) / name;
    const std::string good = test::read_text(path);
    const Checkpoint checkpoint = store_.open(step_folder(20));
    on_disk([&] {
      std::string text = good;
      text.back() = static_cast<char>(text.back() ^ 4);
      test::write_text(path, text);
      // A clock may tick seldom.
      std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
    });
    try {
      expect_loads(store_, checkpoint, 20);
      ADD_FAILURE() << name << " was loaded";
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::output);
      EXPECT_THAT(error.what(), testing::HasSubstr(name + ": has changed since it was compared with its checksum"));
    }
    on_disk([&] { test::write_text(path, good); });
  }
  expect_loads(store_, store_.open(step_folder(20)), 20);
}

TEST_F(Damage, AnAbsentFolderIsRefused) { EXPECT_THROW((void)store_.open(step_folder(99)), comm::AgreedError); }

}  // namespace
}  // namespace ddpm::checkpoint
