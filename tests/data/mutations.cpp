// Datasets changed at random: data_mutations [--count 10000] [--seed 1] [FILE.h5].
//
// A set of three shards with labels. One of its files (a shard, dataset.json) is changed, then the set is opened and
// all its images and labels are read. Either that is refused with the exit code of datasets, or every byte is as
// written.
#include <vector>

#include "base/error.h"
#include "data/dataset.h"
#include "data/sample_set.h"
#include "support/fake_communicator.h"
#include "support/mutation.h"
#include "support/temporary_folder.h"

namespace ddpm::data {
namespace {

using test::Outcome;

struct Content {
  DatasetInfo info;
  std::vector<int64_t> labels;
  std::vector<std::byte> images;
  friend bool operator==(const Content&, const Content&) = default;
};

Content read_all(const Path& folder) {
  test::TrafficCounts counts;
  test::FakeCommunicator comm(0, 1, counts);
  Dataset set = Dataset::open(comm, folder);
  Content content{set.info(), {set.labels().begin(), set.labels().end()}, {}};
  content.images.resize(static_cast<std::size_t>(set.size()) * set.image().bytes());
  set.read_block(0, set.size(), content.images);
  set.close(comm);
  return content;
}

Outcome outcome(const Path& folder, const Content& wanted) {
  try {
    return read_all(folder) == wanted ? Outcome::harmless : Outcome::wrong;
  } catch (const base::Error& error) {
    return error.code() == base::ExitCode::dataset ? Outcome::detected : Outcome::crashed;
  }
}

using Files = std::vector<std::pair<std::string, std::string>>;

/// Changes one of `files` in `folder` at a time, and loads `set`.
int change_and_load(const Path& folder, const Path& set, const Files& files, uint64_t count, uint64_t seed) {
  const Content wanted = read_all(set);
  test::Mutator mutator(seed);
  test::Tally tally;
  for (uint64_t trial = 0; trial < count; ++trial) {
    const auto& [name, good] = files[trial % files.size()];
    const std::string& other = files[mutator.below(files.size())].second;
    test::write_text(folder / name, mutator.changed(good, other));
    const auto load = [&] { return outcome(set, wanted); };
    tally.add(name.ends_with(".h5") ? "shard" : name, test::in_a_process_of_its_own(load), trial);
    test::write_text(folder / name, good);
  }
  return tally.report();
}

int run(uint64_t count, uint64_t seed, const Path& plain) {
  const test::TemporaryFolder folder;
  if (!plain.empty()) {
    const std::string name = "plain.h5";
    const std::string text = test::read_text(plain);
    test::write_text(folder.path() / name, text);
    return change_and_load(folder.path(), folder.path() / name, {{name, text}}, count, seed);
  }
  const ImageFormat format{.height = 6, .width = 5, .channels = 3, .dtype = base::DType::u8};
  const Path set = folder.path() / "set";
  write_sample_set(set, format, true, {7, 1, 12});
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(set)) {
    files.emplace_back(entry.path().filename().string(), test::read_text(entry.path()));
  }
  std::sort(files.begin(), files.end());
  return change_and_load(set, set, files, count, seed);
}

}  // namespace
}  // namespace ddpm::data

int main(int argc, char** argv) {
  using ddpm::test::option;
  const std::string last = argc > 1 ? argv[argc - 1] : "";
  return ddpm::data::run(option(argc, argv, "--count", 10000), option(argc, argv, "--seed", 1),
                         last.ends_with(".h5") ? last : "");
}
