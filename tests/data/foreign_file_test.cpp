// A bare .h5 file that changes while it is read, and files that HDF5 itself may not survive.
#include <cerrno>
#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "base/failing_calls.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/open_file.h"
#include "data/packed_file.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "h5/file.h"

namespace ddpm::data {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kPictures = 64;
constexpr ImageFormat kPicture = {.height = 32, .width = 32, .channels = 3, .dtype = base::DType::u8};

class ForeignFileTest : public SharedFolderTest {
 protected:
  void SetUp() override {
    SharedFolderTest::SetUp();
    path_ = folder_ / "images.h5";
    make(path_, 1);
  }
  /// Images whose bytes are all `value`.
  static void make(const Path& path, int value) {
    on_rank_0([&] {
      base::posix_file_system()->create_exclusive(path)->close();
      h5::File file = h5::File::create(path, {});
      h5::Array images =
          file.create_array("/images", h5::Element::u8,
                            std::vector<int64_t>{kPictures, kPicture.height, kPicture.width, kPicture.channels});
      images.write_rows(0, kPictures, std::vector(kPictures * kPicture.bytes(), static_cast<std::byte>(value)));
      images.close();
      file.close();
    });
  }
  /// What a read of all images is refused with after rank 0 has done `work` to the open file.
  [[nodiscard]] std::string refusal_after(const std::function<void()>& work) const {
    Dataset set = Dataset::open(comm(), path_);
    EXPECT_EQ(refusal([&] { return read(set); }), "accepted");
    on_rank_0([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // files' times have the kernel's grain
      work();
    });
    std::string said = refusal([&] { return read(set); });
    set.close(comm());
    return said;
  }
  static std::vector<std::byte> read(const Dataset& set) {
    std::vector<std::byte> images(static_cast<std::size_t>(set.size()) * set.image().bytes());
    set.read_block(0, set.size(), images);
    return images;
  }

  Path path_;
};

TEST_F(ForeignFileTest, AFileThatShrinksIsNotReadAsZeros) {
  const auto size = std::filesystem::file_size(path_);
  const std::string said = refusal_after([&] { std::filesystem::resize_file(path_, size / 2); });
  EXPECT_THAT(said, StartsWith(path_.string() + ": it was changed since it was opened: it has " +
                               std::to_string(size / 2) + " bytes, changed 20"));
  EXPECT_THAT(said, HasSubstr("and had " + std::to_string(size) + " bytes, changed 20"));
  EXPECT_THAT(said, Not(HasSubstr("\n")));
}

TEST_F(ForeignFileTest, AFileThatShrankAndGrewAgainIsRefusedToo) {
  const auto size = std::filesystem::file_size(path_);
  EXPECT_THAT(refusal_after([&] {
                std::filesystem::resize_file(path_, size / 2);
                std::filesystem::resize_file(path_, size);
              }),
              HasSubstr("it was changed since it was opened"));
}

TEST_F(ForeignFileTest, AFileThatIsRewrittenInPlaceIsRefused) {
  EXPECT_THAT(refusal_after([&] { test::flip_bit(path_, 4096 + 100); }),
              HasSubstr("it was changed since it was opened"));
}

TEST_F(ForeignFileTest, AFileThatIsReplacedIsRefused) {
  const Path other = folder_ / "other.h5";
  make(other, 1);
  EXPECT_THAT(refusal_after([&] {
                std::filesystem::last_write_time(other, std::filesystem::last_write_time(path_));
                std::filesystem::rename(other, path_);
              }),
              HasSubstr("another file has taken its place since it was opened"));
}

TEST_F(ForeignFileTest, AFileThatIsRemovedIsRefused) {
  EXPECT_EQ(refusal_after([&] { std::filesystem::remove(path_); }), path_.string() + ": there is no such file");
}

TEST_F(ForeignFileTest, ARankThatFailsAloneOpensTheOtherArraysWithTheOthersFirst) {
  const Path path = folder_ / "packed.h5";
  on_rank_0([&] { write_packed_file(path); });
  const std::vector<Path> paths = {path};
  const std::vector<h5::File> files = h5::File::open_parallel(comm(), paths);
  const std::string said = refusal([&] {
    comm::agree(comm(), [&] {
      std::optional<test::FailingCalls> failing;  // the places of /images, which are chunks, are read with open()
      if (comm().rank() == 0) failing.emplace("open", EACCES, 1000);
      return open_file(files.front(), {.condition = "/condition"}).info.count;
    });
    return 0;
  });
  EXPECT_THAT(said, HasSubstr(path.string() + ": cannot open: "));
}

TEST_F(ForeignFileTest, OneLookAtTheFileIsEnoughForAMicroBatch) {
  const Dataset set = Dataset::open(comm(), path_);
  const ImageOrder order(set.size(), 0, {.shuffle = Shuffle::full});
  constexpr int64_t kSteps = 8;
  const auto layout = layout::BatchLayout::make(int64_t{8} * comm().size(), 8, comm().size());
  BatchLoader loader(set, order, {.layout = layout, .rank = comm().rank(), .end_step = kSteps, .prefetch = 0});
  const test::FailingCalls counted("stat", 0, 0);
  for (int64_t step = 0; step < kSteps; ++step) loader.next();
  EXPECT_EQ(counted.calls(), kSteps) << "and not one for each of the 8 images";
}

class ForeignFileLoaderTest : public ForeignFileTest, public testing::WithParamInterface<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Prefetch, ForeignFileLoaderTest, testing::Values(0, 1));

TEST_P(ForeignFileLoaderTest, GivesOutNoBatchOfAFileThatShrank) {
  Dataset set = Dataset::open(comm(), path_);
  const ImageOrder order(set.size(), 0, {});
  const auto layout = layout::BatchLayout::make(int64_t{8} * comm().size(), 8, comm().size());
  BatchLoader loader(set, order,
                     {.layout = layout, .rank = comm().rank(), .end_step = 100'000, .prefetch = GetParam()});
  loader.next();
  on_rank_0([&] { std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2); });
  EXPECT_THAT(refusal([&] {
                for (int i = 0; i < 100'000; ++i) {
                  const MicroBatch batch = loader.next();
                  EXPECT_EQ(std::ranges::count(batch.values[0], std::byte{1}), std::ssize(batch.values[0]));
                }
                return 0;
              }),
              HasSubstr("it was changed since it was opened"));
}

TEST_F(ForeignFileTest, AShardThatShrinksIsFoundByItsDigests) {
  const Path folder = folder_ / "set";
  on_rank_0([&] { write_sample_set(folder, kPicture, true, {kPictures}); });
  const Path shard = folder / shard_file_name(0, 1);
  for (const Path& path : {folder, shard}) {
    const Dataset set = Dataset::open(comm(), path);
    on_rank_0([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 3000);
    });
    EXPECT_THAT(refusal([&] { return read(set); }),
                AnyOf(HasSubstr("image 63 (number 63 of the dataset) is damaged"), HasSubstr("it was changed"),
                      HasSubstr("it shrank while open")));
    on_rank_0([&] {
      std::filesystem::remove_all(folder);
      write_sample_set(folder, kPicture, true, {kPictures});
    });
  }
}

TEST_F(ForeignFileTest, AFailedReadOfAFileThatChangedDoesNotBlameItsImages) {
  const Path packed = folder_ / "packed.h5";
  on_rank_0([&] { write_old_file(packed); });
  const Dataset set = Dataset::open(comm(), packed);
  EXPECT_EQ(set.bytes_per_read(), 2 * set.image().bytes()) << "a chunk holds two images";
  std::vector<std::byte> image(set.image().bytes());
  set.read_block(0, 1, image);
  on_rank_0([&] {
    std::string text = test::read_text(packed);
    std::fill(text.begin() + 512, text.end(), '\xff');
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    test::write_text(packed, text);
  });
  EXPECT_THAT(refusal([&] {
                for (int64_t i = 2; i < set.size(); ++i) set.read_unconfirmed(i, 1, image);
                set.expect_unchanged();
                return 0;
              }),
              HasSubstr("it was changed since it was opened"));
}

TEST_F(ForeignFileTest, NoDamagedFileEndsTheProcess) {
  const Path damaged = folder_ / "damaged.h5";
  std::string whole;
  on_rank_0([&] {
    write_old_file(damaged);
    whole = test::read_text(damaged);
  });
  std::mt19937 random(1);
  int refused = 0;
  constexpr int kChanges = 100;
  for (int i = 0; i < kChanges; ++i) {
    on_rank_0([&] {
      std::string text = whole;
      const auto at = random() % text.size();
      for (std::size_t k = at; k < std::min(at + 4, text.size()); ++k) text[k] = static_cast<char>(random());
      test::write_text(damaged, text);
    });
    refused += refusal([&] {
                 Dataset set = Dataset::open(comm(), damaged);
                 set.close(comm());
                 return 0;
               }) != "accepted";
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, kChanges);
}

}  // namespace
}  // namespace ddpm::data
