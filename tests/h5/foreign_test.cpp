// Tests which files of other programs are accepted, and which are refused before a value is read.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/error.h"
#include "h5/file.h"
#include "support/temporary_folder.h"

namespace ddpm::h5 {
namespace {

using base::DatasetError;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array<hsize_t, 2> kShape = {4, 3};
constexpr std::array<int32_t, 12> kValues = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -11};

class ForeignTest : public testing::Test {
 protected:
  void SetUp() override { file_ = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); }

  /// /images [4, 3] of `type`, made with `properties`, which is closed.
  void add_images(hid_t type, hid_t properties, bool write = true) const {
    const hid_t space = H5Screate_simple(2, kShape.data(), nullptr);
    const hid_t data = H5Dcreate2(file_, "/images", type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    ASSERT_GE(data, 0);
    const herr_t written = write ? H5Dwrite(data, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, kValues.data()) : 0;
    ASSERT_GE(written, 0);
    H5Dclose(data);
    H5Sclose(space);
    if (properties != H5P_DEFAULT) H5Pclose(properties);
  }
  /// What opening /images and reading its last row is refused with, or the row.
  std::string result() {
    H5Fclose(file_);
    try {
      const File file = File::open(path_);
      const Array data = file.array("/images");
      std::vector<int32_t> row(3);
      data.read_rows(3, 1, std::as_writable_bytes(std::span(row)));
      return fmt::format("{} {} {}", row[0], row[1], row[2]);
    } catch (const DatasetError& error) {
      return error.what();
    }
  }
  static hid_t chunked() {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const std::array<hsize_t, 2> chunk = {2, 3};
    H5Pset_chunk(properties, 2, chunk.data());
    return properties;
  }

  test::TemporaryFolder folder_;
  const Path path_ = folder_.path() / "foreign.h5";
  hid_t file_ = -1;
};

TEST_F(ForeignTest, PlainArraysAreRead) {
  add_images(H5T_STD_I32LE, H5P_DEFAULT);
  EXPECT_EQ(result(), "9 10 -11");
}

TEST_F(ForeignTest, BigEndianValuesAreTurnedRound) {
  add_images(H5T_STD_I32BE, H5P_DEFAULT);
  EXPECT_EQ(result(), "9 10 -11");
}

TEST_F(ForeignTest, ChunksCompressedWithGzipAreRead) {
  const hid_t properties = chunked();
  H5Pset_shuffle(properties);
  H5Pset_deflate(properties, 4);
  H5Pset_fletcher32(properties);
  add_images(H5T_STD_I32LE, properties);
  EXPECT_EQ(result(), "9 10 -11");
}

TEST_F(ForeignTest, DamagedChunksAreRefusedWithTheirPlace) {
  const hid_t properties = chunked();
  H5Pset_fletcher32(properties);
  add_images(H5T_STD_I32LE, properties);
  H5Fclose(file_);
  std::string bytes = test::read_text(path_);
  const std::string stored(reinterpret_cast<const char*>(&kValues[6]), 6 * sizeof(int32_t));
  const std::size_t at = bytes.find(stored);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 5;
  test::write_text(path_, bytes);
  file_ = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  EXPECT_THAT(result(), HasSubstr(fmt::format("/images, chunk 1 at byte {}: its checksum is", at)));
}

TEST_F(ForeignTest, FiltersThatOnlyHdf5KnowsAreLeftToIt) {
  const hid_t properties = chunked();
  H5Pset_scaleoffset(properties, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT);
  add_images(H5T_STD_I32LE, properties);
  EXPECT_EQ(result(), "9 10 -11");
}

TEST_F(ForeignTest, OpeningAFileForbidsThatHdf5LoadsPlugIns) {
  H5PLset_loading_state(H5PL_ALL_PLUGIN);
  add_images(H5T_STD_I32LE, H5P_DEFAULT);
  EXPECT_EQ(result(), "9 10 -11");
  unsigned int allowed = H5PL_ALL_PLUGIN;
  ASSERT_GE(H5PLget_loading_state(&allowed), 0);
  EXPECT_EQ(allowed & static_cast<unsigned int>(H5PL_ALL_PLUGIN), 0U);
}

TEST_F(ForeignTest, AFilterThatWouldHaveToBeLoadedIsRefused) {
  const hid_t properties = chunked();
  constexpr H5Z_filter_t kBlosc = 32001;
  ASSERT_GE(H5Pset_filter(properties, kBlosc, H5Z_FLAG_OPTIONAL, 0, nullptr), 0);
  add_images(H5T_STD_I32LE, properties, false);
  EXPECT_EQ(result(), path_.string() +
                          ":/images: HDF5 filter 32001 (Blosc) is not available for it; store it uncompressed, or "
                          "with gzip, LZ4 or Zstandard");
}

TEST_F(ForeignTest, ValuesInOtherFilesAreRefused) {
  test::write_text(folder_.path() / "secret", std::string(48, 'x'));
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(properties, (folder_.path() / "secret").c_str(), 0, 48);
  add_images(H5T_STD_I32LE, properties, false);
  EXPECT_THAT(result(), HasSubstr("its values lie in other files (external storage)"));
}

TEST_F(ForeignTest, VirtualArraysAreRefused) {
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  const hid_t space = H5Screate_simple(2, kShape.data(), nullptr);
  ASSERT_GE(H5Pset_virtual(properties, space, "other.h5", "/images", space), 0);
  H5Sclose(space);
  add_images(H5T_STD_I32LE, properties, false);
  EXPECT_THAT(result(), HasSubstr("its values lie in other files (a virtual dataset)"));
}

TEST_F(ForeignTest, ExternalLinksAreRefused) {
  H5Lcreate_external("other.h5", "/images", file_, "/images", H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_THAT(result(), HasSubstr("/images is an external link"));
}

TEST_F(ForeignTest, SoftLinksAreRefusedEvenToAnArrayOfThisFile) {
  add_images(H5T_STD_I32LE, H5P_DEFAULT);
  H5Lmove(file_, "/images", file_, "/other", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/other", file_, "/images", H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_THAT(result(), HasSubstr("/images is a soft link"));
}

TEST_F(ForeignTest, LinksOfUnknownKindsAreRefused) {
  constexpr auto kKind = static_cast<H5L_type_t>(200);
  H5L_class_t kind{};
  kind.version = H5L_LINK_CLASS_T_VERS;
  kind.id = kKind;
  kind.trav_func = [](const char*, hid_t, const void*, size_t, hid_t, hid_t) -> hid_t { return -1; };
  ASSERT_GE(H5Lregister(&kind), 0);
  ASSERT_GE(H5Lcreate_ud(file_, "/images", kKind, "x", 1, H5P_DEFAULT, H5P_DEFAULT), 0);
  ASSERT_GE(H5Lunregister(kKind), 0);
  EXPECT_THAT(result(), HasSubstr("/images is a link of a kind"));
}

TEST_F(ForeignTest, ChunksThatFillTheMemoryAreRefused) {
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  const std::array<hsize_t, 2> shape = {1, hsize_t{1} << 29U};
  H5Pset_chunk(properties, 2, shape.data());
  H5Pset_deflate(properties, 9);
  const hid_t space = H5Screate_simple(2, shape.data(), nullptr);
  const hid_t data = H5Dcreate2(file_, "/images", H5T_STD_I32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  ASSERT_GE(data, 0);
  H5Dclose(data);
  H5Sclose(space);
  H5Pclose(properties);
  EXPECT_THAT(result(), HasSubstr("/images: its chunks, [1, 536870912], have no or more than 1073741824 bytes"));
}

TEST_F(ForeignTest, AnArrayOfWhichAPartWasNeverWrittenIsNoZeros) {
  const hid_t properties = chunked();
  H5Pset_deflate(properties, 4);
  const hid_t space = H5Screate_simple(2, kShape.data(), nullptr);
  const hid_t data = H5Dcreate2(file_, "/images", H5T_STD_I32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  const std::array<hsize_t, 2> start = {2, 0};
  const std::array<hsize_t, 2> rows = {2, 3};
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, rows.data(), nullptr);
  const hid_t memory = H5Screate_simple(2, rows.data(), nullptr);
  ASSERT_GE(H5Dwrite(data, H5T_NATIVE_INT32, memory, space, H5P_DEFAULT, kValues.data()), 0);
  H5Sclose(memory);
  H5Dclose(data);
  H5Sclose(space);
  H5Pclose(properties);
  EXPECT_THAT(result(), HasSubstr("/images: 1 of its 2 chunks were written"));
}

TEST_F(ForeignTest, LinksOnTheWayToAnArrayAreRefusedToo) {
  H5Lcreate_external("other.h5", "/", file_, "/group", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file_);
  const File file = File::open(path_);
  try {
    static_cast<void>(file.array("/group/images"));
    FAIL() << "accepted";
  } catch (const DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/group is an external link"));
  }
}

TEST_F(ForeignTest, NoQuestionLeadsIntoAnotherFile) {
  const Path other = folder_.path() / "other.h5";
  const hid_t elsewhere = H5Fcreate(other.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(H5Gcreate2(elsewhere, "/images", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Fclose(elsewhere);
  H5Lcreate_external("other.h5", "/", file_, "/outside", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(H5Gcreate2(file_, "/within", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Lcreate_soft("/within", file_, "/again", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file_);
  const File file = File::open(path_);
  EXPECT_TRUE(file.contains("/within"));
  EXPECT_FALSE(file.contains("/within/images"));
  for (const std::string name : {"/outside", "/outside/images", "/again", "/again/images"}) {
    const std::string wanted = name.starts_with("/outside") ? "/outside is an external link" : "/again is a soft link";
    const auto refused = testing::ThrowsMessage<DatasetError>(HasSubstr(wanted));
    EXPECT_THAT([&] { static_cast<void>(file.contains(name)); }, refused) << name;
    EXPECT_THAT([&] { static_cast<void>(file.find_attribute(name, "units")); }, refused) << name;
    EXPECT_THAT([&] { static_cast<void>(file.names_in(name)); }, refused) << name;
  }
}

TEST_F(ForeignTest, AnArrayThatWasNeverWrittenIsNoZeros) {
  add_images(H5T_STD_I32LE, H5P_DEFAULT, false);
  EXPECT_THAT(result(), HasSubstr("nothing was ever written"));
}

TEST_F(ForeignTest, AGroupIsNoArray) {
  H5Gclose(H5Gcreate2(file_, "/images", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  EXPECT_THAT(result(), HasSubstr("/images: cannot open the array: "));
}

TEST_F(ForeignTest, ElementsThatAreNoPlainNumbersAreToldApart) {
  const hid_t half = H5Tcopy(H5T_STD_I32LE);
  H5Tset_precision(half, 20);
  add_images(half, H5P_DEFAULT);
  H5Tclose(half);
  H5Fclose(file_);
  const File file = File::open(path_);
  const Array data = file.array("/images");
  EXPECT_EQ(data.element(), Element::other);
  std::vector<int64_t> row(3);
  EXPECT_THROW(data.read_integers(0, 1, row), DatasetError);
}

TEST_F(ForeignTest, AStringAttributeOfVariableLengthIsRead) {
  add_images(H5T_STD_I32LE, H5P_DEFAULT);
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute =
      H5Acreate_by_name(file_, "/images", "layout", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const char* value = "NCHW";
  H5Awrite(attribute, type, &value);
  const hid_t number =
      H5Acreate_by_name(file_, "/images", "number", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Aclose(number);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
  H5Fclose(file_);
  const File file = File::open(path_);
  const Array data = file.array("/images");
  EXPECT_EQ(data.attribute("layout"), "NCHW");
  EXPECT_THROW(static_cast<void>(data.attribute("number")), DatasetError);
}

}  // namespace
}  // namespace ddpm::h5
