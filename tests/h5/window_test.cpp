// Tests that windows of a row hold its values, however they are stored, also where they go around.
#include <array>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/error.h"
#include "h5/file.h"
#include "support/temporary_folder.h"

namespace ddpm::h5 {
namespace {

using testing::HasSubstr;
using Sides = std::array<int64_t, 3>;

constexpr std::array<hsize_t, 4> kWhole = {3, 50, 34, 2};
constexpr std::array<hsize_t, 4> kChunks = {2, 16, 10, 2};  // no side is a multiple of it

int32_t value_at(uint64_t row, uint64_t y, uint64_t x, uint64_t c) {
  return static_cast<int32_t>(((row * kWhole[1] + y) * kWhole[2] + x) * kWhole[3] + c);
}

class WindowTest : public testing::Test {
 protected:
  /// /a of kWhole, whose values are their own places. Closes `properties`.
  Path file_of(hid_t type, hid_t properties) const {
    std::vector<int32_t> values(kWhole[0] * kWhole[1] * kWhole[2] * kWhole[3]);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(4, kWhole.data(), nullptr);
    const hid_t data = H5Dcreate2(file, "/a", type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(data, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(data);
    H5Sclose(space);
    if (properties != H5P_DEFAULT) H5Pclose(properties);
    H5Fclose(file);
    return path_;
  }
  static hid_t chunked() {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 4, kChunks.data());
    return properties;
  }

  test::TemporaryFolder folder_;
  const Path path_ = folder_.path() / "a.h5";
};

std::vector<int32_t> window(const Array& data, int64_t row, const Sides& begin, const Sides& extent) {
  std::vector<int32_t> values(static_cast<std::size_t>(extent[0] * extent[1] * extent[2]));
  data.read_window(row, begin, extent, std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<int32_t> expected(int64_t row, const Sides& begin, const Sides& extent) {
  std::vector<int32_t> values;
  const auto around = [](int64_t place, hsize_t side) { return static_cast<uint64_t>(place) % side; };
  for (int64_t y = 0; y < extent[0]; ++y) {
    for (int64_t x = 0; x < extent[1]; ++x) {
      for (int64_t c = 0; c < extent[2]; ++c) {
        values.push_back(value_at(static_cast<uint64_t>(row), around(begin[0] + y, kWhole[1]),
                                  around(begin[1] + x, kWhole[2]), around(begin[2] + c, kWhole[3])));
      }
    }
  }
  return values;
}

/// Draws windows at all places, half of which go around.
void expect_windows(const Path& path) {
  const File file = File::open(path);
  const Array data = file.array("/a");
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int i = 0; i < 200; ++i) {
    Sides begin{};
    Sides extent{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const auto side = static_cast<int64_t>(kWhole.at(axis + 1));
      begin.at(axis) = below(side);
      extent.at(axis) = below(3) == 0 ? side : 1 + below(side);
    }
    const int64_t row = below(3);
    ASSERT_EQ(window(data, row, begin, extent), expected(row, begin, extent))
        << row << ": " << begin[0] << " " << begin[1] << " " << begin[2] << " + " << extent[0] << " " << extent[1]
        << " " << extent[2];
  }
  std::vector<int32_t> rows(2 * kWhole[1] * kWhole[2] * kWhole[3]);
  data.read_rows(1, 2, std::as_writable_bytes(std::span(rows)));
  for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], value_at(1, 0, 0, 0) + static_cast<int32_t>(i));
}

TEST_F(WindowTest, WindowsOfPlainValuesAreRead) { expect_windows(file_of(H5T_STD_I32LE, H5P_DEFAULT)); }

TEST_F(WindowTest, WindowsOfValuesInTheOtherByteOrderAreRead) { expect_windows(file_of(H5T_STD_I32BE, H5P_DEFAULT)); }

TEST_F(WindowTest, WindowsOfChunksAreRead) { expect_windows(file_of(H5T_STD_I32LE, chunked())); }

TEST_F(WindowTest, WindowsOfCompressedChunksAreRead) {
  const hid_t properties = chunked();
  H5Pset_shuffle(properties);
  H5Pset_deflate(properties, 1);
  expect_windows(file_of(H5T_STD_I32BE, properties));
}

TEST_F(WindowTest, WindowsOfChunksThatHdf5UnpacksAreRead) {
  const hid_t properties = chunked();
  H5Pset_scaleoffset(properties, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT);
  expect_windows(file_of(H5T_STD_I32LE, properties));
}

TEST_F(WindowTest, LinesThatAreFarFromOneAnotherAreRead) {
  constexpr std::array<hsize_t, 2> kWide = {2, 3 * 8192};
  constexpr std::array<hsize_t, 3> kFar = {1, 2, kWide[1]};
  std::vector<float> values(2 * kWide[1]);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const hid_t handle = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(3, kFar.data(), nullptr);
  const hid_t set = H5Dcreate2(handle, "/a", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Dclose(set);
  H5Sclose(space);
  H5Fclose(handle);
  const File file = File::open(path_);
  std::vector<float> read(4);
  file.array("/a").read_window(0, std::array<int64_t, 2>{1, 24575}, std::array<int64_t, 2>{2, 2},
                               std::as_writable_bytes(std::span(read)));
  EXPECT_THAT(read, testing::ElementsAre(49151, 24576, 24575, 0));
}

TEST_F(WindowTest, OnlyChunksWithSomeOfTheWindowAreFetched) {
  const hid_t properties = chunked();
  H5Pset_fletcher32(properties);
  file_of(H5T_STD_I32LE, properties);
  std::string bytes = test::read_text(path_);
  const int32_t damaged = value_at(0, 20, 15, 0);  // in the chunk of rows 16 to 31 and columns 10 to 19
  const std::array<int32_t, 2> values = {damaged, damaged + 1};
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(values.data()), sizeof(values)));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = static_cast<char>(bytes[at] + 1);
  test::write_text(path_, bytes);
  const File file = File::open(path_);
  const Array data = file.array("/a");
  EXPECT_EQ(window(data, 0, {32, 10, 0}, {18, 10, 2}), expected(0, {32, 10, 0}, {18, 10, 2}));
  EXPECT_EQ(window(data, 0, {16, 20, 0}, {16, 24, 2}), expected(0, {16, 20, 0}, {16, 24, 2}));
  try {
    window(data, 0, {31, 19, 0}, {2, 2, 2});
    FAIL() << "a damaged chunk was read";
  } catch (const base::DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("its checksum is"));
  }
}

}  // namespace
}  // namespace ddpm::h5
