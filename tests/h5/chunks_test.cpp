// Chunks that several threads unpack, and that callers in several threads and a ring share: the values are HDF5's own.
#include <array>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/error.h"
#include "h5/chunk_ring.h"
#include "h5/file.h"
#include "support/temporary_folder.h"

namespace ddpm::h5 {
namespace {

constexpr std::array<hsize_t, 3> kLarge = {60, 130, 64};
constexpr std::size_t kRowValues = 130 * 64;

class ChunksTest : public testing::Test {
 protected:
  /// /images of float32 in chunks of 7 rows, in three pieces along the next axis, packed by shuffle and gzip unless
  /// `plain`.
  void write(bool plain) {
    values_.resize(kLarge[0] * kRowValues);
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i % 9973) / 16.0F;
    const std::array<hsize_t, 3> chunk = {7, 50, 64};
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 3, chunk.data());
    if (!plain) {
      H5Pset_shuffle(properties);
      H5Pset_deflate(properties, 4);
    }
    const hid_t space = H5Screate_simple(3, kLarge.data(), nullptr);
    const hid_t images = H5Dcreate2(file, "/images", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    ASSERT_GE(H5Dwrite(images, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values_.data()), 0);
    H5Dclose(images);
    H5Sclose(space);
    H5Pclose(properties);
    H5Fclose(file);
  }
  /// Reads rows [first, first + n), and compares them with what was written.
  void expect_rows(const Array& images, int64_t first, int64_t n) const {
    std::vector<float> rows(static_cast<std::size_t>(n) * kRowValues);
    images.read_rows(first, n, std::as_writable_bytes(std::span(rows)));
    const auto* const wanted = &values_[static_cast<std::size_t>(first) * kRowValues];
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), wanted)) << "rows " << first << " and " << n - 1 << " more";
  }
  /// Each of some threads reads rows in an order of its own.
  void expect_all_in_any_order(const Array& images) const {
    std::vector<std::jthread> callers;
    for (unsigned t = 0; t < 3; ++t) {
      callers.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 60; ++i) {
          const auto first = static_cast<int64_t>(random() % kLarge[0]);
          expect_rows(images, first, 1 + static_cast<int64_t>(random()) % (static_cast<int64_t>(kLarge[0]) - first));
          expect_rows(images, first, 1);
        }
      });
    }
  }

  test::TemporaryFolder folder_;
  base::Path path_ = folder_.path() / "chunks.h5";
  std::vector<float> values_;
};

TEST_F(ChunksTest, AnyNumberOfThreadsGivesTheValuesThatWereWritten) {
  for (const bool plain : {false, true}) {
    write(plain);
    for (const int threads : {1, 2, 7}) {
      File file = File::open(path_);
      file.unpack_with(threads);
      const Array images = file.array("/images");
      expect_rows(images, 0, static_cast<int64_t>(kLarge[0]));
      expect_all_in_any_order(images);
    }
  }
}

TEST_F(ChunksTest, AFileKeepsItsChunksInARingThatOthersUseToo) {
  write(false);
  std::vector<std::byte> memory(ChunkRing::head_bytes() + (std::size_t{1} << 20U));
  ChunkRing ring(memory);
  std::vector<File> files;
  std::vector<Array> arrays;
  for (int rank = 0; rank < 2; ++rank) {
    files.push_back(File::open(path_));
    files.back().unpack_with(2);
    files.back().share_chunks(ring, 3);
    arrays.push_back(files.back().array("/images"));
  }
  const std::jthread other([&] { expect_all_in_any_order(arrays[0]); });
  expect_all_in_any_order(arrays[1]);
}

TEST_F(ChunksTest, ADamagedChunkIsNamedByWhicheverThreadFindsIt) {
  write(false);
  Extent chunk;
  {
    const File file = File::open(path_);
    chunk = file.array("/images").extents().at(4);
  }
  for (uint64_t i = 0; i < 64; ++i) test::flip_bit(path_, static_cast<std::streamoff>(chunk.offset + 100 + i));
  File file = File::open(path_);
  file.unpack_with(4);
  const Array images = file.array("/images");
  std::vector<std::byte> rows(kLarge[0] * images.row_bytes());
  try {
    images.read_rows(0, static_cast<int64_t>(kLarge[0]), rows);
    FAIL() << "accepted";
  } catch (const base::DatasetError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/images, chunk 4 at byte " + std::to_string(chunk.offset)));
  }
}

}  // namespace
}  // namespace ddpm::h5
