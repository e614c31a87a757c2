// Several files as one set, on several ranks: bare ones, and foreign ones whose variables are composed.
#include <chrono>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "data/dataset.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "h5/file.h"

namespace ddpm::data {
namespace {

using h5::Element;
using testing::ElementsAre;
using testing::HasSubstr;

class SeveralFilesTest : public SharedFolderTest {
 protected:
  /// Floats that count up from `first`, in order.
  static void add(h5::File& file, const std::string& name, const std::vector<int64_t>& shape, float first) {
    h5::Array array = file.create_array(name, Element::f32, shape);
    std::vector<float> values(static_cast<std::size_t>(array.rows()) * array.row_bytes() / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
    array.write_rows(0, array.rows(), std::as_bytes(std::span(values)));
  }
  /// Images of 2 × 2, `rows` of them, whose values count up from `first`; beside them a ground and a height.
  void make(const std::string& name, int64_t rows, float first, float ground = 7.0F) const {
    on_rank_0([&] {
      const Path path = folder_ / name;
      base::posix_file_system()->create_exclusive(path)->close();
      h5::File file = h5::File::create(path, {});
      add(file, "/images", {rows, 2, 2, 1}, first);
      add(file, "/u", {rows, 2, 2}, first);
      add(file, "/v", {rows, 2, 2}, -first);
      add(file, "/ground", {2, 2}, ground);
      add(file, "/height", {rows}, first);
      h5::Array labels = file.create_array("/labels", Element::i64, std::vector<int64_t>{rows});
      const std::vector<int64_t> classes(static_cast<std::size_t>(rows), static_cast<int64_t>(rows));
      labels.write_rows(0, rows, std::as_bytes(std::span(classes)));
      labels.close();
      file.close();
    });
  }
  [[nodiscard]] std::vector<Dataset::Source> sources(const std::vector<std::string>& names) const {
    std::vector<Dataset::Source> all;
    for (const std::string& name : names) all.push_back({.path = folder_ / name});
    return all;
  }
  static std::vector<float> first_values(const Dataset& set, std::size_t field) {
    const std::size_t row = set.fields()[field].bytes();
    std::vector<float> values;
    for (int64_t i = 0; i < set.size(); ++i) {
      std::vector<float> one(row / sizeof(float));
      set.read_unconfirmed(field, i, 1, std::as_writable_bytes(std::span(one)));
      values.push_back(one.front());
    }
    set.expect_unchanged();
    return values;
  }
  static DatasetOptions foreign() {
    DatasetOptions options;
    options.variables = {"v", "u"};
    options.static_values = "ground";
    options.parameters = "height";
    options.lead = 1;
    return options;
  }
};

TEST_F(SeveralFilesTest, BareOnesFollowEachOther) {
  make("a.h5", 2, 0.0F);
  make("b.h5", 3, 100.0F);
  Dataset set = Dataset::open(comm(), sources({"b.h5", "a.h5"}));
  EXPECT_THAT(first_values(set, 0), ElementsAre(100, 104, 108, 0, 4));
  EXPECT_THAT(set.labels(), ElementsAre(3, 3, 3, 2, 2));
  EXPECT_EQ(set.parts().size(), 1U) << "one order for all";
  std::vector<float> across(8);
  set.read_block(2, 2, std::as_writable_bytes(std::span(across)));
  EXPECT_THAT(across, ElementsAre(108, 109, 110, 111, 0, 1, 2, 3));
  Dataset turned = Dataset::open(comm(), folder_ / "?.h5");
  EXPECT_NE(turned.content_hash(), set.content_hash());
  turned.close(comm());
  set.close(comm());
}

TEST_F(SeveralFilesTest, ForeignOnesGiveEveryRoleAndPairsWithinEachFile) {
  make("a.h5", 3, 0.0F);
  make("b.h5", 2, 100.0F);
  Dataset set = Dataset::open(comm(), sources({"a.h5", "b.h5"}), foreign());
  EXPECT_THAT(first_values(set, 0), ElementsAre(4, 8, -96)) << "v, one later";
  EXPECT_THAT(first_values(set, 1), ElementsAre(0, 4, -100)) << "v itself";
  const std::size_t parameters = 2;
  const auto heights = set.held_values(parameters);
  EXPECT_THAT(std::vector<float>(reinterpret_cast<const float*>(heights.data()),
                                 reinterpret_cast<const float*>(heights.data()) + heights.size() / sizeof(float)),
              ElementsAre(0, 1, 100));
  const auto ground = set.set_values(0);
  EXPECT_EQ(*reinterpret_cast<const float*>(ground.data()), 7.0F);
  EXPECT_TRUE(set.periodic_axes().empty()) << "these files do not say";
  set.close(comm());
}

TEST_F(SeveralFilesTest, AreWatchedEachOnItsOwn) {
  make("a.h5", 2, 0.0F);
  make("b.h5", 2, 100.0F);
  Dataset set = Dataset::open(comm(), sources({"a.h5", "b.h5"}), foreign());
  on_rank_0([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // files' times have the kernel's grain
    test::flip_bit(folder_ / "b.h5", 100);
  });
  std::vector<float> image(8);
  const auto read = [&](int64_t i) { set.read_block(i, 1, std::as_writable_bytes(std::span(image))); };
  EXPECT_EQ(refusal([&] { return read(0), 0; }), "accepted") << "of the file that stayed";
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(refusal([&] { return read(1), 0; }), HasSubstr("b.h5: it was changed since it was opened"));
  }
  EXPECT_THAT(refusal([&] { return set.expect_unchanged(), 0; }), HasSubstr("b.h5")) << "until it is used no more";
  set.close(comm());
}

TEST_F(SeveralFilesTest, OnesThatDoNotBelongTogetherAreRefused) {
  make("a.h5", 2, 0.0F);
  make("b.h5", 2, 100.0F, 8.0F);
  const auto refused = [&](const std::vector<Dataset::Source>& all, const DatasetOptions& options) {
    return refusal([&] { return Dataset::open(comm(), all, options); });
  };
  EXPECT_THAT(refused(sources({"a.h5", "b.h5"}), foreign()), HasSubstr("its values are not those of"));
  on_rank_0([&] { std::filesystem::create_directory(folder_ / "set"); });
  EXPECT_THAT(refused(sources({"a.h5", "set"}), {}), HasSubstr("several sets are all folders"));
  std::vector<Dataset::Source> weighted = sources({"a.h5", "b.h5"});
  weighted.back().weight = 2.0;
  EXPECT_THAT(refused(weighted, {}), HasSubstr("have one weight"));
  on_rank_0([&] { std::ofstream(folder_ / "c.h5") << "not HDF5"; });
  EXPECT_THAT(refused(sources({"a.h5", "c.h5"}), {}), HasSubstr("c.h5"));
  EXPECT_THAT(refused(sources({"a.h5", "absent.h5"}), {}), HasSubstr("there is no such dataset"));
}

}  // namespace
}  // namespace ddpm::data
