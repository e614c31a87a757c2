// The process dies at the n-th call that changes the disk, for every n. Afterwards a whole checkpoint is found, at
// least as new as the last one that was reported, and the run can continue saving.
#pragma once

#include <gmock/gmock.h>

#include "checkpoint/crash_file_system.h"
#include "checkpoint/store_fixture.h"

namespace ddpm::checkpoint {

inline constexpr int kSurelyEnoughCalls = 500;

class CrashTest : public StoreTest {
 protected:
  static void save_newest(CheckpointStore& store, int64_t step, int64_t values_step) {
    save_values(store, world(), step, values_step, {.keep_latest = 1});
  }

  /// One life of the program: `before` ends well, `during` dies at call n of rank `victim`. False when it did not die.
  bool dies_at(int n, int victim, Loss loss, int64_t before, int64_t during, int64_t during_values) {
    on_disk([&] { std::filesystem::remove_all(checkpoints()); });
    save_newest(safe_, before, before);
    CrashFileSystem disk(world().rank() == victim ? n : kSurelyEnoughCalls);
    CheckpointStore store(disk, world(), run_, logger_);
    bool died = false;
    try {
      save_newest(store, during, during_values);
    } catch (const comm::AgreedError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("simulated crash"));
      died = true;
    } catch (const Crash&) {  // rank 0 died while it tidied up after another rank's failure
      died = true;
    }
    comm::barrier(world());
    disk.lose(loss);
    return died;
  }

  /// What is found has step and values of one of the two saves, and is whole.
  void expect_whole(int64_t before, int64_t during, int64_t during_values, bool reported) {
    const auto checkpoint = safe_.find();
    ASSERT_TRUE(checkpoint);
    const int64_t values = checkpoint->manifest.state.at("values").get<int64_t>();
    expect_loads(safe_, *checkpoint, values);
    const bool is_new = checkpoint->manifest.step == during && values == during_values;
    const bool is_old = checkpoint->manifest.step == before && values == before;
    EXPECT_TRUE(is_new || (is_old && !reported)) << "step " << checkpoint->manifest.step << " values " << values;
  }

  void run_all(int victim, Loss loss, int64_t before, int64_t during, int64_t during_values) {
    int n = 1;
    for (bool died = true; died; ++n) {
      ASSERT_LT(n, kSurelyEnoughCalls);
      SCOPED_TRACE(fmt::format("call {} of rank {}", n, victim));
      died = dies_at(n, victim, loss, before, during, during_values);
      expect_whole(before, during, during_values, !died);
      save_newest(safe_, during + 1, during + 1);
      expect_whole(0, during + 1, during + 1, true);
      on_disk([&] { EXPECT_THAT(names(), testing::ElementsAre(step_folder_name(during + 1))); });
      if (HasFailure()) return;
    }
    EXPECT_GT(n, victim == 0 ? 20 : 5);  // the crash did strike at each stage
  }

  CrashFileSystem safe_disk_{kSurelyEnoughCalls * kSurelyEnoughCalls};
  CheckpointStore safe_{safe_disk_, world(), run_, logger_};
};

}  // namespace ddpm::checkpoint
