// Sets that are held in memory: read once, and from then on without their files.
#include "data/hold.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>

#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "h5/file.h"

namespace ddpm::data {
namespace {

using testing::HasSubstr;

constexpr ImageFormat kHeld = {.height = 6, .width = 5, .channels = 3, .dtype = base::DType::u8};

class HoldTest : public SharedFolderTest {
 protected:
  Dataset open_new() {
    on_rank_0([&] { info_ = write_sample_set(folder_ / "set", kHeld, true, {3, 0, 7, 1}); });
    return Dataset::open(comm(), folder_ / "set");
  }
  /// Another program's file: images of 2 × 3, each of which lacks a value.
  void make_foreign(const std::string& name, int64_t images) const {
    on_rank_0([&] {
      const Path path = folder_ / name;
      base::posix_file_system()->create_exclusive(path)->close();
      h5::File file = h5::File::create(path, {});
      h5::Array array = file.create_array("/u", h5::Element::f32, std::vector<int64_t>{images, 2, 3});
      std::vector<float> values(static_cast<std::size_t>(images) * 6);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = i % 7 == 1 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i);
      }
      array.write_rows(0, images, std::as_bytes(std::span(values)));
      array.close();
      file.close();
    });
  }

  DatasetInfo info_;  // on rank 0
};

std::vector<std::byte> images_of(const Dataset& set, int64_t first, int64_t count) {
  std::vector<std::byte> images(static_cast<std::size_t>(count) * kHeld.bytes());
  set.read_block(first, count, images);
  return images;
}

/// Each field of all images.
std::vector<std::vector<std::byte>> all_values(const Dataset& set) {
  std::vector<std::vector<std::byte>> values;
  values.reserve(set.fields().size());
  for (const Field& field : set.fields()) {
    auto& room = values.emplace_back(static_cast<std::size_t>(set.size()) * field.bytes());
    set.read_unconfirmed(values.size() - 1, 0, set.size(), room);
  }
  return values;
}

TEST_F(HoldTest, ImagesAreReadFromMemoryWhateverBecomesOfTheFiles) {
  Dataset set = open_new();
  hold_in_memory(comm(), set);
  comm::barrier(comm());
  on_rank_0([&] {
    for (const ShardInfo& shard : info_.shards) test::write_text(folder_ / "set" / shard.file, "gone");
  });
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{{0, 11}, {2, 3}, {10, 1}}) {
    std::vector<std::byte> wanted;
    for (int64_t i = first; i < first + count; ++i) {
      const auto image = sample_image(kHeld, i);
      wanted.insert(wanted.end(), image.begin(), image.end());
    }
    EXPECT_EQ(images_of(set, first, count), wanted);
  }
  std::vector<std::byte> pixel(kHeld.channels);
  set.read_window_unconfirmed(0, 9, std::vector<int64_t>{5, 4}, std::vector<int64_t>{1, 1}, pixel);
  set.expect_unchanged();
  const auto image = sample_image(kHeld, 9);
  EXPECT_TRUE(std::equal(pixel.begin(), pixel.end(), image.end() - kHeld.channels));
}

TEST_F(HoldTest, ADamagedImageEndsTheReading) {
  Dataset set = open_new();
  on_rank_0([&] {
    const std::size_t at = info_.shards[2].header_size + 4 * kHeld.bytes();
    test::flip_bit(folder_ / "set" / info_.shards[2].file, static_cast<std::streamoff>(at));
  });
  try {
    hold_in_memory(comm(), set);
    FAIL() << "it was accepted";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::dataset);
  }
}

TEST_F(HoldTest, MasksOfMissingValuesAreHeldBesideTheirImages) {
  make_foreign("a.h5", 3);
  make_foreign("b.h5", 5);
  DatasetOptions options;
  options.variables = {"u"};
  options.missing = Missing::mask;
  for (const std::vector<Dataset::Source>& files :
       {std::vector<Dataset::Source>{{.path = folder_ / "a.h5"}},
        std::vector<Dataset::Source>{{.path = folder_ / "a.h5"}, {.path = folder_ / "b.h5"}}}) {
    Dataset set = Dataset::open(comm(), files, options);
    const std::vector<std::vector<std::byte>> wanted = all_values(set);
    hold_in_memory(comm(), set);
    const std::vector<std::vector<std::byte>> held = all_values(set);
    EXPECT_EQ(held, wanted);
    EXPECT_EQ(held.size(), 2U) << "images and masks";
    EXPECT_GE(std::ranges::count(held.back(), std::byte{0}), std::ssize(files));
    set.close(comm());
  }
}

TEST_F(HoldTest, IsClosedLikeAnyOther) {
  Dataset set = open_new();
  hold_in_memory(comm(), set);
  set.close(comm());
}

}  // namespace
}  // namespace ddpm::data
