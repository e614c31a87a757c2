// A folder of its own for each test, removed afterwards, and the file system to write into it.
#pragma once

#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/file_system.h"
#include "support/temporary_folder.h"

namespace ddpm::observe {

class TemporaryFolderTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file(std::string_view name) const { return folder_.path() / name; }
  static std::string read(const std::filesystem::path& path) { return test::read_text(path); }
  static void write(const std::filesystem::path& path, std::string_view bytes) { test::write_text(path, bytes); }
  /// How many files the folder holds, hidden ones too.
  [[nodiscard]] std::ptrdiff_t file_count() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()), std::filesystem::directory_iterator());
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

}  // namespace ddpm::observe
