// peers_test.py tests that numpy reads and writes these files alike.
#include "observe/npy.h"

#include <chrono>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/error.h"
#include "observe/temporary_folder.h"

namespace ddpm::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class NpyTest : public TemporaryFolderTest {
 protected:
  void write_array(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& elements) {
    NpyWriter writer(*files_, file(name), shape);
    writer.append(elements);
    writer.commit();
  }
  /// A file with the given version, header text and number of data bytes.
  std::filesystem::path crafted(const std::string& header, std::size_t data_bytes, char major = 1) {
    std::string bytes("\x93NUMPY", 6);
    bytes += {major, '\0', static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
    if (major > 1) bytes += std::string(2, '\0');
    write(file("crafted.npy"), bytes + header + std::string(data_bytes, '\0'));
    return file("crafted.npy");
  }
  static std::string refusal(const std::filesystem::path& path) {
    try {
      const NpyReader reader(path);
    } catch (const base::ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(NpyTest, WhatIsWrittenCanBeReadBackInParts) {
  {
    NpyWriter writer(*files_, file("x.npy"), {2, 3});
    writer.append(std::vector<float>{0, 1});
    writer.append(std::vector<float>{2, 3, 4, 5});
    writer.commit();
  }
  NpyReader reader(file("x.npy"));
  EXPECT_THAT(reader.shape(), ElementsAre(2, 3));
  std::vector<float> part(2);
  reader.read(3, part);
  EXPECT_THAT(part, ElementsAre(3, 4));
  reader.read(0, part);
  EXPECT_THAT(part, ElementsAre(0, 1));
  EXPECT_THROW(reader.read(5, part), base::InternalError);
}

TEST_F(NpyTest, AFileThatIsChangedReplacedOrRemovedIsNoticed) {
  const std::filesystem::path path = file("x.npy");
  write_array("x.npy", {2}, {1, 2});
  write_array("other.npy", {2}, {3, 4});
  const NpyReader reader(path);
  EXPECT_NO_THROW(reader.expect_unchanged());
  const auto written = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, written + std::chrono::seconds(1));
  EXPECT_THROW(reader.expect_unchanged(), base::ConfigError);
  const NpyReader later(path);
  EXPECT_NO_THROW(later.expect_unchanged());
  std::filesystem::last_write_time(file("other.npy"), written - std::chrono::seconds(9));
  std::filesystem::rename(file("other.npy"), path);
  EXPECT_THROW(later.expect_unchanged(), base::ConfigError);
  const NpyReader last(path);
  std::filesystem::remove(path);
  EXPECT_THROW(last.expect_unchanged(), base::ConfigError);
}

TEST_F(NpyTest, DataBeginsAtAMultipleOf64Bytes) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1}, {1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
    write_array("x.npy", shape, {1});
    EXPECT_EQ(std::filesystem::file_size(file("x.npy")) % 64, sizeof(float));
    std::filesystem::remove(file("x.npy"));
  }
}

TEST_F(NpyTest, NothingIsSeenUnderTheNameBeforeCommit) {
  NpyWriter writer(*files_, file("x.npy"), {1});
  writer.append(std::vector<float>{1});
  EXPECT_FALSE(std::filesystem::exists(file("x.npy")));
  writer.commit();
  EXPECT_TRUE(std::filesystem::exists(file("x.npy")));
  EXPECT_EQ(file_count(), 1);
}

TEST_F(NpyTest, AWriterThatIsGivenUpLeavesNothing) {
  {
    NpyWriter writer(*files_, file("x.npy"), {2});
    writer.append(std::vector<float>{1});
    EXPECT_THROW(writer.commit(), base::InternalError) << "one element is missing";
    EXPECT_THROW(writer.append(std::vector<float>{1, 2}), base::InternalError) << "one element too many";
  }
  EXPECT_EQ(file_count(), 0);
}

TEST_F(NpyTest, ReadsTheHeadersThatNumpyWrites) {
  EXPECT_EQ(NpyReader(crafted("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }  \n", 8)).shape(),
            (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(NpyReader(crafted("{'shape': (3,), 'fortran_order': False, 'descr': '<f4'}\n", 12, 2)).shape(),
            (std::vector<int64_t>{3}));
  EXPECT_EQ(NpyReader(crafted("{'descr': '<f4', 'fortran_order': False, 'shape': ()}\n", 4, 3)).shape(),
            (std::vector<int64_t>{}));
}

TEST_F(NpyTest, RefusesOtherElementsAndOrdersAndSaysWhatHelps) {
  EXPECT_THAT(refusal(crafted("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 8)),
              HasSubstr("'<f8', wanted '<f4': x.astype('float32')"));
  EXPECT_THAT(refusal(crafted("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4)), HasSubstr("'>f4'"));
  EXPECT_THAT(refusal(crafted("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", 4)),
              HasSubstr("numpy.ascontiguousarray"));
}

TEST_F(NpyTest, RefusesAFileOfAnotherLengthThanItsShape) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
  EXPECT_THAT(refusal(crafted(header, 7)), HasSubstr("it has 72 bytes, wanted 73"));
  EXPECT_THAT(refusal(crafted(header, 9)), HasSubstr("it has 74 bytes, wanted 73"));
}

TEST_F(NpyTest, RefusesDamagedHeaders) {
  for (const char* header : {
           "",
           "{",
           "{}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} trailing",
           "{'descr': '<f4', 'fortran_order': None, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}",
           "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4",
       }) {
    EXPECT_THAT(refusal(crafted(header, 4)), HasSubstr("not a float32 .npy file")) << header;
  }
  EXPECT_THAT(refusal(crafted("{}", 4, 4)), HasSubstr("format version 4"));
}

TEST_F(NpyTest, EveryTruncationIsRefused) {
  write_array("x.npy", {2, 2}, {1, 2, 3, 4});
  const std::string whole = read(file("x.npy"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(file("cut.npy"), whole.substr(0, size));
    ASSERT_NE(refusal(file("cut.npy")), "accepted") << size << " bytes";
  }
}

TEST_F(NpyTest, ALongHeaderIsRefusedBeforeItIsRead) {
  std::string bytes("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12);
  write(file("x.npy"), bytes);
  EXPECT_THAT(refusal(file("x.npy")), HasSubstr("its header has 2147483647 bytes, wanted at most 65536"));
}

TEST_F(NpyTest, AnAbsentFileIsNamed) {
  EXPECT_THAT(refusal(file("none.npy")), AllOf(HasSubstr("none.npy"), HasSubstr("No such file")));
}

TEST_F(NpyTest, APipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(file("pipe.npy").c_str(), 0600), 0);
  EXPECT_THAT(refusal(file("pipe.npy")), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace ddpm::observe
