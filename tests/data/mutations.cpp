// Datasets changed at random: data_mutations [--count 10000] [--seed 1] [FILE.h5 | adopted [FILE.h5]].
//
// A set of three shards with labels. One of its files (a shard, dataset.json) is changed, then the set is opened and
// all its images and labels are read. Either that is refused with the exit code of datasets, or every byte is as
// written. FILE.h5: the same with a file of another program; "adopted": with one that has digests beside it, which are
// changed in one of four trials.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "data/adopt.h"
#include "data/dataset.h"
#include "data/packed_file.h"
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
  std::vector<std::vector<std::byte>> others = {};
  friend bool operator==(const Content&, const Content&) = default;
};

Content read_all(const Path& folder, const DatasetOptions& options) {
  test::TrafficCounts counts;
  test::FakeCommunicator comm(0, 1, counts);
  Dataset set = Dataset::open(comm, folder, options);
  Content content{set.info(), {set.labels().begin(), set.labels().end()}, {}, {}};
  content.images.resize(static_cast<std::size_t>(set.size()) * set.image().bytes());
  set.read_block(0, set.size(), content.images);
  for (std::size_t f = 1; f < set.fields().size(); ++f) {
    if (!set.fields()[f].is_read_in_blocks()) continue;
    std::vector<std::byte>& values = content.others.emplace_back();
    values.resize(static_cast<std::size_t>(set.size()) * set.fields()[f].bytes());
    set.read_unconfirmed(f, 0, set.size(), values);
  }
  set.close(comm);
  return content;
}

Outcome outcome(const Path& folder, const DatasetOptions& options, const Content& wanted) {
  try {
    return read_all(folder, options) == wanted ? Outcome::harmless : Outcome::wrong;
  } catch (const base::Error& error) {
    return error.code() == base::ExitCode::dataset ? Outcome::detected : Outcome::crashed;
  }
}

using Files = std::vector<std::pair<std::string, std::string>>;

/// Changes one of `files` in `folder` at a time, and loads `set`.
int change_and_load(const Path& folder, const Path& set, const Files& files, uint64_t count, uint64_t seed,
                    const DatasetOptions& options = {}) {
  const Content wanted = read_all(set, options);
  test::Mutator mutator(seed);
  test::Tally tally;
  for (uint64_t trial = 0; trial < count; ++trial) {
    const auto& [name, good] = files[trial % files.size()];
    const std::string& other = files[mutator.below(files.size())].second;
    test::write_text(folder / name, mutator.changed(good, other));
    const auto load = [&] { return outcome(set, options, wanted); };
    tally.add(name.ends_with(".h5") ? "shard" : name, test::in_a_process_of_its_own(load), trial);
    test::write_text(folder / name, good);
  }
  return tally.report();
}

/// A file with digests beside it; a file of our own making where none is given.
int change_adopted(const Path& folder, const Path& plain, uint64_t count, uint64_t seed) {
  const Path file = folder / "adopted.h5";
  DatasetOptions options{.threads = 2, .chunk_cache_mib = 1};
  if (plain.empty()) {
    write_packed_file(file);
    options.condition = "/condition";
  } else {
    test::write_text(file, test::read_text(plain));
  }
  test::TrafficCounts counts;
  test::FakeCommunicator comm(0, 1, counts);
  adopt(comm, file, *base::posix_file_system(), [](int64_t /*done*/, int64_t /*total*/) {});
  const std::pair<std::string, std::string> own{"adopted.h5", test::read_text(file)};
  const std::pair<std::string, std::string> beside{"adopted.h5.ddpm", test::read_text(adoption_of(file))};
  return change_and_load(folder, file, {own, own, own, beside}, count, seed, options);
}

int run(uint64_t count, uint64_t seed, const Path& plain, bool adopted) {
  const test::TemporaryFolder folder;
  if (adopted) return change_adopted(folder.path(), plain, count, seed);
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
  const std::vector<std::string> words(argv, argv + argc);
  const std::string& last = words.back();
  const bool adopted = std::ranges::find(words, "adopted") != words.end();
  return ddpm::data::run(option(argc, argv, "--count", 10000), option(argc, argv, "--seed", 1),
                         last.ends_with(".h5") ? last : "", adopted);
}
