// Files of other programs with digests beside them: the same values as before, and an error for each byte that changed.
#include "data/adopt.h"

#include <gmock/gmock.h>

#include "data/dataset.h"
#include "data/packed_file.h"
#include "data/shared_folder.h"
#include "support/fake_communicator.h"
#include "support/mutation.h"

namespace ddpm::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr auto kSilent = [](int64_t /*done*/, int64_t /*total*/) {};

struct Content {
  std::vector<std::byte> images;
  std::vector<std::byte> condition;
  std::vector<int64_t> labels;
  friend bool operator==(const Content&, const Content&) = default;
};

Content expected() {
  Content content;
  for (std::size_t i = 0; i < 128; ++i) content.images.push_back(static_cast<std::byte>(PackedFile::value(i)));
  std::vector<float> condition(PackedFile::kImages * 4 * 4 * 60);
  for (std::size_t i = 0; i < condition.size(); ++i) condition[i] = PackedFile::condition(i);
  const auto bytes = std::as_bytes(std::span(condition));
  content.condition.assign(bytes.begin(), bytes.end());
  for (std::size_t i = 0; i < PackedFile::kImages; ++i) content.labels.push_back(PackedFile::label(i));
  return content;
}

class AdoptTest : public SharedFolderTest {
 protected:
  void SetUp() override {
    SharedFolderTest::SetUp();
    path_ = folder_ / "packed.h5";
    on_rank_0([&] { write_packed_file(path_); });
    adopt_it();
    on_rank_0([&] { whole_ = test::read_text(path_); });
    whole_ = comm::broadcast(comm(), whole_);
  }
  Adoption adopt_it() { return adopt(comm(), path_, *base::posix_file_system(), kSilent); }

  static Content read_all(comm::Communicator& comm, const Path& path) {
    Dataset set = Dataset::open(comm, path, {.condition = "/condition", .threads = 3});
    EXPECT_TRUE(set.is_adopted());
    Content content;
    content.images.resize(static_cast<std::size_t>(set.size()) * set.image().bytes());
    set.read_block(0, set.size(), content.images);
    content.condition.resize(static_cast<std::size_t>(set.size()) * set.fields().at(2).bytes());
    set.read_unconfirmed(2, 0, set.size(), content.condition);
    content.labels.assign(set.labels().begin(), set.labels().end());
    set.close(comm);
    return content;
  }
  /// What reading all of the file is refused with after it was changed to `text`.
  [[nodiscard]] std::string refusal_of(const std::string& text) const {
    on_rank_0([&] { test::write_text(path_, text); });
    return refusal([&] {
      EXPECT_EQ(read_all(comm(), path_), expected()) << "other values without an error";
      return 0;
    });
  }
  [[nodiscard]] std::string flipped(std::size_t at) const {
    std::string text = whole_;
    text[at] = static_cast<char>(text[at] ^ 1);
    return text;
  }

  Path path_;
  std::string whole_;
};

TEST_F(AdoptTest, AFileHasTheValuesThatItHadBefore) { EXPECT_EQ(read_all(comm(), path_), expected()); }

TEST_F(AdoptTest, TheFileStaysAndItsDigestsAreTheSameOnAnyNumberOfRanks) {
  const std::string sidecar = test::read_text(adoption_of(path_));
  on_rank_0([&] {
    test::TrafficCounts counts;
    test::FakeCommunicator alone(0, 1, counts);
    std::filesystem::remove(adoption_of(path_));
    adopt(alone, path_, *base::posix_file_system(), kSilent);
    EXPECT_EQ(test::read_text(adoption_of(path_)), sidecar);
    EXPECT_EQ(test::read_text(path_), whole_);
    const Path other = path_.parent_path() / "as-written.h5";
    write_packed_file(other);
    EXPECT_EQ(test::read_text(other).size(), whole_.size());
  });
}

TEST_F(AdoptTest, WhatOnlyHdf5ReadsBelongsToTheRest) {
  const Adoption adoption = adopt_it();
  std::vector<std::string> on_read;
  std::vector<std::string> on_open;
  for (const AdoptedArray& array : adoption.arrays) {
    (array.compared_on_read ? on_read : on_open).push_back(array.name);
  }
  EXPECT_THAT(on_read, ElementsAre("/condition", "/images", "/labels"));
  EXPECT_THAT(on_open, ElementsAre("/about/units"));
  EXPECT_EQ(adoption.digests, 4U + 2U + 1U) << "four chunks, 30,720 bytes in blocks of 16 KiB, labels";
}

TEST_F(AdoptTest, EveryByteThatChangesIsAnError) {
  const std::size_t step = whole_.size() / (comm().size() == 1 ? 97 : 11);  // data_mutations goes on from here
  for (std::size_t at = 0; at < whole_.size(); at += step) {
    EXPECT_THAT(refusal_of(flipped(at)), AllOf(HasSubstr(path_.string()), Not(HasSubstr("\n")))) << "byte " << at;
  }
}

TEST_F(AdoptTest, AnErrorNamesTheChunkOrTheBlock) {
  std::vector<h5::DigestRun> runs;
  {
    auto adopted = AdoptedFile::open(comm(), path_);
    ASSERT_TRUE(adopted);
    runs.assign(adopted->digests().runs().begin(), adopted->digests().runs().end());
    adopted->close();
  }
  const auto chunk = std::ranges::find_if(runs, [](const auto& run) { return run.array == 2 && run.number == 3; });
  ASSERT_NE(chunk, runs.end());
  EXPECT_THAT(refusal_of(flipped(chunk->offset + 5)),
              AllOf(HasSubstr(path_.string() + ":/images, chunk 3 at byte " + std::to_string(chunk->offset)),
                    HasSubstr("adopt it again")));
  const auto block = std::ranges::find(runs, 1U, &h5::DigestRun::array);
  ASSERT_NE(block, runs.end());
  EXPECT_THAT(refusal_of(flipped(block->offset + (20U << 10U))),
              AllOf(HasSubstr(path_.string() + ":/condition: "),
                    HasSubstr("at byte " + std::to_string(block->offset + (16U << 10U)))));
}

TEST_F(AdoptTest, NumbersBesideTheImagesAreComparedWhenTheyAreRead) {
  const auto labels = [&] {
    Dataset set = Dataset::open(comm(), path_, {.labels = "", .beside = {"/labels", "/absent"}});
    std::vector<int64_t> numbers = set.integers(comm(), "/labels");
    EXPECT_THAT(set.integers(comm(), "/absent"), testing::IsEmpty());
    set.close(comm());
    return numbers;
  };
  EXPECT_EQ(labels(), expected().labels);
  auto adopted = AdoptedFile::open(comm(), path_);
  ASSERT_TRUE(adopted);
  const auto runs = adopted->digests().runs();
  const std::size_t offset = std::ranges::find(runs, 3U, &h5::DigestRun::array)->offset;
  adopted->close();
  on_rank_0([&] { test::write_text(path_, flipped(offset)); });
  EXPECT_THAT(refusal([&] { return labels().size(); }), HasSubstr(path_.string() + ":/labels"));
}

TEST_F(AdoptTest, AFileThatWasCutOrHasGrownSaysWhatToDo) {
  for (const std::string& text : {whole_.substr(0, whole_.size() - 1), whole_ + "x", std::string()}) {
    EXPECT_THAT(refusal_of(text), AllOf(HasSubstr("it has " + std::to_string(text.size()) + " bytes, and had"),
                                        HasSubstr("ddpm data adopt " + path_.string())));
  }
}

TEST_F(AdoptTest, AFileThatChangedOnPurposeIsAdoptedAgain) {
  EXPECT_NE(refusal_of(flipped(whole_.size() - 1)), "accepted");
  adopt_it();
  auto adopted = AdoptedFile::open(comm(), path_);
  ASSERT_TRUE(adopted);
  adopted->close();
}

TEST_F(AdoptTest, DigestsAreFoundThroughALink) {
  const Path link = folder_ / "link.h5";
  on_rank_0([&] { std::filesystem::create_symlink(path_.filename(), link); });
  EXPECT_EQ(read_all(comm(), link), expected());
  on_rank_0([&] { test::write_text(path_, flipped(whole_.size() - 1)); });
  EXPECT_THAT(refusal([&] { return read_all(comm(), link).labels.size(); }), HasSubstr(link.string()));
}

TEST_F(AdoptTest, DigestsThatAreALinkToNothingAreAnError) {
  const Path sidecar = adoption_of(path_);
  on_rank_0([&] {
    std::filesystem::remove(sidecar);
    std::filesystem::create_symlink("nothing", sidecar);
  });
  EXPECT_THAT(refusal([&] { return read_all(comm(), path_).labels.size(); }), HasSubstr(sidecar.string()));
}

TEST_F(AdoptTest, DamagedDigestsAreNotBelieved) {
  const Path sidecar = adoption_of(path_);
  const std::string good = test::read_text(sidecar);
  const std::size_t line = good.find('\n');
  for (const std::size_t at : {std::size_t{3}, std::size_t{20}, line + 30, good.size() - 2}) {
    on_rank_0([&] {
      std::string text = good;
      text[at] = static_cast<char>(text[at] ^ 4);
      test::write_text(sidecar, text);
    });
    EXPECT_THAT(refusal([&] { return read_all(comm(), path_).labels.size(); }),
                AllOf(HasSubstr(sidecar.string()), Not(HasSubstr("\n"))))
        << "byte " << at;
  }
  on_rank_0([&] { test::write_text(sidecar, good.substr(0, good.size() - 4)); });
  EXPECT_THAT(refusal([&] { return read_all(comm(), path_).labels.size(); }), HasSubstr("were written"));
}

TEST_F(AdoptTest, VerifyNamesAllThatChanged) {
  std::string text = flipped(whole_.size() - 1);
  auto adopted = AdoptedFile::open(comm(), path_);
  ASSERT_TRUE(adopted);
  EXPECT_THAT(verify_adopted(comm(), path_, *adopted, kSilent), testing::IsEmpty());
  const std::span<const h5::DigestRun> runs = adopted->digests().runs();
  text = whole_;
  for (const h5::DigestRun& run : runs) text[run.offset] = static_cast<char>(text[run.offset] ^ 1);
  on_rank_0([&] { test::write_text(path_, text); });
  const auto lines = verify_adopted(comm(), path_, *adopted, kSilent);
  EXPECT_EQ(lines.size(), runs.size());
  EXPECT_THAT(lines, testing::Contains(HasSubstr(":/images, chunk 0: ")));
  adopted->close();
}

TEST_F(AdoptTest, OtherFilesAreNotAdopted) {
  const Path text = folder_ / "notes.txt";
  on_rank_0([&] { test::write_text(text, "no HDF5"); });
  for (const Path& path : {text, folder_ / "absent.h5", folder_}) {
    EXPECT_THAT(refusal([&] {
                  adopt(comm(), path, *base::posix_file_system(), kSilent);
                  return 0;
                }),
                HasSubstr(path.string()));
    EXPECT_FALSE(base::is_there(adoption_of(path)));
  }
}

}  // namespace
}  // namespace ddpm::data
