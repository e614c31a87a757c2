// The list of chunks that is read from the file, against HDF5's own.
#include "h5/chunk_tree.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "h5/file.h"
#include "support/temporary_folder.h"

namespace ddpm::h5 {
namespace {

using Begin = std::vector<uint64_t>;

struct Kind {
  H5F_libver_t low;
  bool attributes;  ///< so many that the header is written in several parts
};

class ChunkTree : public testing::Test {
 protected:
  /// /images of float32, packed by gzip, in chunks of 3 x 5 of some of which the filter is left out.
  void write(const Kind& kind, hsize_t rows) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, kind.low, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const std::array<hsize_t, 2> shape = {rows, 17};
    const std::array<hsize_t, 2> chunk = {3, 5};
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 2, chunk.data());
    H5Pset_deflate(properties, 1);
    const hid_t space = H5Screate_simple(2, shape.data(), nullptr);
    const hid_t images = H5Dcreate2(file, "/images", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    const hid_t one = H5Screate(H5S_SCALAR);
    for (int i = 0; kind.attributes && i < 40; ++i) {
      const hid_t note =
          H5Acreate2(images, ("note" + std::to_string(i)).c_str(), H5T_NATIVE_INT, one, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(note, H5T_NATIVE_INT, &i);
      H5Aclose(note);
    }
    std::vector<float> values(rows * 17);
    std::mt19937 random(1);
    for (float& value : values) value = static_cast<float>(random() % 100);
    ASSERT_GE(H5Dwrite(images, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    const std::array<hsize_t, 2> second = {3, 5};
    const std::array<float, 15> plain{};
    ASSERT_GE(H5Dwrite_chunk(images, H5P_DEFAULT, 1, second.data(), sizeof(plain), plain.data()), 0);
    H5Sclose(one);
    H5Dclose(images);
    H5Sclose(space);
    H5Pclose(properties);
    H5Fclose(file);
    H5Pclose(access);
  }

  /// What HDF5 says, and where the array's header lies.
  std::map<Begin, ChunkPlace> of_library(uint64_t& header) const {
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t images = H5Dopen2(file, "/images", H5P_DEFAULT);
    H5O_info_t info;
    H5Oget_info2(images, &info, H5O_INFO_BASIC);
    header = info.addr;
    const hid_t space = H5Dget_space(images);
    hsize_t count = 0;
    H5Dget_num_chunks(images, space, &count);
    std::map<Begin, ChunkPlace> all;
    for (hsize_t i = 0; i < count; ++i) {
      std::array<hsize_t, 2> begin{};
      unsigned skipped = 0;
      haddr_t offset = 0;
      hsize_t bytes = 0;
      H5Dget_chunk_info(images, space, i, begin.data(), &skipped, &offset, &bytes);
      all[{begin[0], begin[1]}] = {.offset = offset, .bytes = bytes, .skipped = skipped};
    }
    H5Sclose(space);
    H5Dclose(images);
    H5Fclose(file);
    return all;
  }

  test::TemporaryFolder folder_;
  base::Path path_ = folder_.path() / "chunks.h5";
};

bool same(const ChunkPlace& a, const ChunkPlace& b) {
  return a.offset == b.offset && a.bytes == b.bytes && a.skipped == b.skipped;
}

TEST_F(ChunkTree, ListsWhatHdf5Lists) {
  for (const Kind& kind : {Kind{H5F_LIBVER_EARLIEST, false}, Kind{H5F_LIBVER_EARLIEST, true},
                           Kind{H5F_LIBVER_V18, false}, Kind{H5F_LIBVER_V18, true}}) {
    for (const hsize_t rows : {3, 700, 3001}) {  // one node, two levels, three
      write(kind, rows);
      uint64_t header = 0;
      const auto wanted = of_library(header);
      std::map<Begin, ChunkPlace> seen;
      const base::InputFile file(path_);
      ASSERT_TRUE(
          list_chunks(file, header, 2, wanted.size(), [&](std::span<const uint64_t> begin, const ChunkPlace& at) {
            seen[{begin.begin(), begin.end()}] = at;
          }));
      ASSERT_EQ(seen.size(), wanted.size());
      for (const auto& [begin, place] : wanted) EXPECT_TRUE(same(seen.at(begin), place)) << begin[0] << " " << begin[1];
      EXPECT_FALSE(list_chunks(file, header, 2, wanted.size() - 1, [](auto, const auto&) {}));
      EXPECT_FALSE(list_chunks(file, header, 3, wanted.size(), [](auto, const auto&) {}));
    }
  }
}

TEST_F(ChunkTree, LeavesOtherIndexesToHdf5) {
  write({H5F_LIBVER_LATEST, false}, 700);
  uint64_t header = 0;
  const auto wanted = of_library(header);
  EXPECT_FALSE(list_chunks(base::InputFile(path_), header, 2, wanted.size(), [](auto, const auto&) {}));
}

TEST_F(ChunkTree, ManyChunksAreRead) {
  write({H5F_LIBVER_EARLIEST, false}, 9000);  // 12,000 chunks
  const File file = File::open(path_);
  const Array images = file.array("/images");
  EXPECT_EQ(images.extents().size(), 12000);
  std::vector<float> values(9000 * 17);
  images.read_rows(0, 9000, std::as_writable_bytes(std::span(values)));
  std::mt19937 random(1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto wanted = static_cast<float>(random() % 100);
    const bool replaced = i / 17 >= 3 && i / 17 < 6 && i % 17 >= 5 && i % 17 < 10;
    ASSERT_EQ(values[i], replaced ? 0.0F : wanted) << i;
  }
}

/// Whatever a byte is changed to, the listing ends, and gives no more than it may.
TEST_F(ChunkTree, DamagedFilesAreListedInPartOrNotAtAll) {
  write({H5F_LIBVER_EARLIEST, true}, 300);
  uint64_t header = 0;
  const auto wanted = of_library(header);
  std::vector<char> whole;
  {
    std::ifstream in(path_, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::mt19937 random(2);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<char> changed = whole;
    for (int i = 0; i < 3; ++i) {
      // Most of them in the header and what follows it, where the nodes lie.
      const std::size_t at = trial % 2 == 0 ? header + random() % 2000 : random() % changed.size();
      changed[std::min(at, changed.size() - 1)] = static_cast<char>(random());
    }
    std::ofstream(path_, std::ios::binary).write(changed.data(), static_cast<std::streamsize>(changed.size()));
    uint64_t listed = 0;
    list_chunks(base::InputFile(path_), header, 2, wanted.size(), [&](auto, const auto&) { ++listed; });
    EXPECT_LE(listed, wanted.size());
  }
}

}  // namespace
}  // namespace ddpm::h5
