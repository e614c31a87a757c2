// A folder that all ranks of a test see; rank 0 makes and removes it, and writes into it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "comm/collectives.h"
#include "support/mpi_test.h"
#include "support/temporary_folder.h"

namespace ddpm::data {

class SharedFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (comm().rank() == 0) own_ = std::make_unique<test::TemporaryFolder>();
    folder_ = comm::broadcast(comm(), own_ ? own_->path().string() : "");
  }
  /// Others may still be reading.
  void TearDown() override { comm::barrier(comm()); }

  static comm::Communicator& comm() { return test::world(); }
  /// Does `work` on rank 0, once no rank reads what was there before.
  static void on_rank_0(const std::function<void()>& work) {
    comm::barrier(comm());
    comm::agree(comm(), [&] {
      if (comm().rank() == 0) work();
    });
  }

  std::unique_ptr<test::TemporaryFolder> own_;
  std::filesystem::path folder_;
};

/// The message with which a dataset error leaves `work`, on this rank; "accepted" without one.
template <typename Work>
std::string refusal(const Work& work) {
  try {
    static_cast<void>(work());
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::dataset) << error.what();
    return error.what();
  }
  return "accepted";
}

}  // namespace ddpm::data
