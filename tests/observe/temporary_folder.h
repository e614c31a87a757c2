// A folder of its own for each test, removed afterwards.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/file_system.h"

namespace ddpm::observe {

class TemporaryFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string pattern = (std::filesystem::temp_directory_path() / "ddpm-observe-XXXXXX").string();
    std::string name = pattern;
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path file(std::string_view name) const { return folder_ / name; }
  static std::string read(const std::filesystem::path& path) {
    const std::ifstream stream(path, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  static void write(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  /// How many files the folder holds, hidden ones too.
  [[nodiscard]] std::ptrdiff_t file_count() const {
    return std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator());
  }

  std::filesystem::path folder_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

}  // namespace ddpm::observe
