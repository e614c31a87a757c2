// What the tests of `create` share.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "data/prepare/create.h"
#include "data/prepare/test_files.h"
#include "support/mpi_test.h"

namespace ddpm::data::prepare {

namespace fs = std::filesystem;

/// A folder that all ranks know, with a source in it: the golden files in three classes, good and bad.
class Create : public testing::Test {
 protected:
  void SetUp() override {
    if (test::world().rank() == 0) {
      own_ = std::make_unique<test::TemporaryFolder>();
      std::vector<fs::path> golden;
      for (const auto& entry : fs::directory_iterator(test::golden(""))) golden.push_back(entry.path());
      std::sort(golden.begin(), golden.end());
      for (std::size_t i = 0; i < golden.size(); ++i) {
        const fs::path folder = own_->path() / "source" / std::string(1, static_cast<char>('a' + i % 3));
        fs::create_directories(folder);
        fs::copy_file(golden[i], folder / golden[i].filename());
      }
    }
    root_ = comm::broadcast(test::world(), own_ ? own_->path().string() : "");
  }
  void TearDown() override { comm::barrier(test::world()); }

  [[nodiscard]] CreateOptions options(const std::string& name) const {
    CreateOptions o;
    o.source.paths = {root_ / "source"};
    o.output = root_ / name;
    o.fit = {{16, 16}, Crop::random, 7};
    o.shards = 5;
    o.source.labels = Labels::folder;
    return o;
  }
  CreateResult make(const CreateOptions& o, comm::Communicator& comm = test::world()) {
    return create(comm, *files_, base::Logger(1, 2), o);  // a logger that does not speak
  }
  /// Name and bytes of every file of a dataset.
  [[nodiscard]] std::map<std::string, std::string> contents(const std::string& name) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(root_ / name)) {
      all[entry.path().filename().string()] = test::read_bytes(entry.path());
    }
    return all;
  }

  std::unique_ptr<test::TemporaryFolder> own_;  // of rank 0
  fs::path root_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

}  // namespace ddpm::data::prepare
