#include "denoise/sample_dataset.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/pulse.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "comm/collectives.h"
#include "data/growing_folder.h"
#include "data/writer.h"
#include "layout/range.h"
#include "observe/progress_bar.h"

namespace ddpm::denoise {
namespace {

constexpr int64_t kMostShards = 256;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
/// Raised when the same identity would give other bytes than before.
constexpr int kRecipe = 1;

/// The results of all shards; a shard that is not finished has none.
using Results = std::vector<std::optional<data::ShardResult>>;

/// HDF5's failures are dataset errors, but here a file is being written.
template <typename Work>
auto as_output(const Work& work) {
  try {
    return work();
  } catch (const base::DatasetError& error) {
    throw base::OutputError("{}", error.what());
  }
}

class SampleWriter {
 public:
  SampleWriter(const SampleDataset& set, const MakeSamples& make, const run::Runtime& runtime)
      : set_(set),
        make_(make),
        runtime_(runtime),
        world_(runtime.session.world()),
        folder_(runtime.files, set.output, sample_shards(set.count, format().bytes())),
        results_(static_cast<std::size_t>(folder_.shards())) {}

  SampledDataset run() {
    comm::do_on_root(world_, [&] { folder_.begin({.images = set_.count, .image_bytes = format().bytes()}); });
    comm::agree(world_, [&] { folder_.join(); });
    take_over();
    SampledDataset done{.shards = folder_.shards()};
    for (int64_t i = 0; i < folder_.shards(); ++i) {
      if (!result(i)) continue;
      ++done.reused_shards;
      done.reused_samples += samples(i).size();
    }
    make_missing(done.reused_samples);
    comm::do_on_root(world_, [&] { publish(); });
    return done;
  }

 private:
  [[nodiscard]] data::ImageFormat format() const { return set_.fields.front().format(); }
  [[nodiscard]] layout::Range samples(int64_t shard) const {
    return layout::aligned_part(set_.count, folder_.shards(), shard, kSampleGroup);
  }
  [[nodiscard]] std::optional<data::ShardResult>& result(int64_t shard) {
    return results_[static_cast<std::size_t>(shard)];
  }
  [[nodiscard]] std::string fingerprint(int64_t shard) const {
    base::Sha256 digest;
    digest.update(fmt::format("{} {} {} {}\n{}", kRecipe, folder_.shards(), shard, set_.count, set_.identity));
    return digest.hex();
  }

  /// Each rank looks at some shards; afterwards all know of all.
  void take_over() {
    comm::agree(world_, [&] {
      for (int64_t i = world_.rank(); i < folder_.shards(); i += world_.size()) {
        const std::optional<base::Json> note = folder_.note_of(i, fingerprint(i));
        if (note) result(i) = parse(*note, folder_.shard_file(i).string());
        base::pulse();
      }
    });
    share();
  }

  std::optional<data::ShardResult> parse(const base::Json& json, const std::string& origin) const {
    try {
      return data::parse_shard_result(json.dump(), format(), origin);
    } catch (const base::DatasetError&) {
      return std::nullopt;  // whatever is wrong with the note, the shard is made anew
    }
  }

  /// Tells all ranks the results that each one has.
  void share() {
    base::Json mine = base::Json::array();
    for (int64_t i = 0; i < folder_.shards(); ++i) {
      if (result(i)) mine.push_back({i, base::Json::parse(data::to_json_text(*result(i)))});
    }
    for (const std::string& theirs : comm::all_gather(world_, mine.dump())) {
      for (const base::Json& entry : base::Json::parse(theirs)) {
        const auto shard = entry.at(0).get<int64_t>();
        if (!result(shard)) result(shard) = data::parse_shard_result(entry.at(1).dump(), format(), "another rank");
      }
    }
  }

  /// The ranks agree after each round of one shard each, so that none works on for long when another has failed.
  void make_missing(int64_t reused) {
    std::vector<int64_t> missing;
    for (int64_t i = 0; i < folder_.shards(); ++i) {
      if (!result(i)) missing.push_back(i);
    }
    observe::ProgressBar bar(
        observe::progress_style(observe::ProgressChoice::automatic, runtime_.log.speaks(), base::stderr_is_terminal()),
        {.label = "sample", .unit = "sample", .first = reused, .total = set_.count});
    const auto ranks = static_cast<std::size_t>(world_.size());
    const int64_t rest = set_.count - reused;
    double mine = 0.0;  // samples of this rank
    for (auto m = static_cast<std::size_t>(world_.rank()); m < missing.size(); m += ranks) {
      mine += static_cast<double>(samples(missing[m]).size());
    }
    double done = 0.0;  // of it
    for (std::size_t first = 0; first < missing.size(); first += ranks) {
      comm::agree(world_, [&] {
        const std::size_t at = first + static_cast<std::size_t>(world_.rank());
        if (at >= missing.size()) return;
        make_shard(missing[at], [&](double made) {
          bar.update(reused + static_cast<int64_t>((done + made) / mine * static_cast<double>(rest)));
        });
        done += static_cast<double>(samples(missing[at]).size());
      });
    }
    share();
  }

  void make_shard(int64_t shard, const std::function<void(double made)>& progress) {
    folder_.clear(shard);
    const layout::Range all = samples(shard);
    std::vector<std::string> paths;
    for (const NumberColumn& column : set_.columns) paths.push_back(column.path);
    data::ShardWriter writer = as_output(
        [&] { return data::ShardWriter(runtime_.files, folder_.shard_file(shard), format(), paths, all.size()); });
    for (int64_t first = all.begin; first < all.end; first += kSampleGroup) {
      const int64_t n = std::min(kSampleGroup, all.end - first);
      const at::Tensor images = make_(first, n, [&](double made) {
        base::pulse();
        progress(static_cast<double>(first - all.begin) + made * static_cast<double>(n));
      });
      append(writer, first, images);
    }
    const data::ShardResult finished = as_output([&] { return writer.finish(); });
    folder_.note(shard, fingerprint(shard), finished.info.sha256, data::to_json_text(finished));
    result(shard) = finished;
  }

  void append(data::ShardWriter& writer, int64_t first, const at::Tensor& images) const {
    DDPM_CHECK(images.is_contiguous() && images.nbytes() == static_cast<std::size_t>(images.size(0)) * format().bytes(),
               "samples of {} bytes, {} are wanted for each", images.nbytes(), format().bytes());
    std::vector<std::vector<int64_t>> numbers;
    for (const NumberColumn& column : set_.columns) {
      for (int64_t i = 0; i < images.size(0); ++i) {
        if (i == 0) numbers.emplace_back();
        numbers.back().push_back(column.number(first + i));
      }
    }
    as_output([&] {
      writer.append({static_cast<const std::byte*>(images.const_data_ptr()), images.nbytes()},
                    {numbers.begin(), numbers.end()});
    });
  }

  /// Rank 0: the description, then the name.
  void publish() {
    std::vector<data::ShardResult> all;
    for (const auto& one : results_) all.push_back(one.value());
    as_output([&] {
      data::write_dataset_info(runtime_.files, folder_.path(), data::assemble(set_.fields, set_.class_names, all));
    });
    folder_.publish();
  }

  const SampleDataset& set_;
  const MakeSamples& make_;
  const run::Runtime& runtime_;
  comm::Communicator& world_;
  data::GrowingFolder folder_;
  Results results_;
};

}  // namespace

int64_t sample_shards(int64_t samples, uint64_t sample_bytes) {
  const int64_t groups = (samples + kSampleGroup - 1) / kSampleGroup;
  const int64_t by_number = std::min(kMostShards, groups);
  const auto bytes = static_cast<uint64_t>(samples) * sample_bytes;
  const auto by_bytes = static_cast<int64_t>((bytes + kMostBytes - 1) / kMostBytes);
  return std::clamp<int64_t>(std::max(by_number, by_bytes), 1, groups);
}

SampledDataset write_samples(const SampleDataset& set, const MakeSamples& make, const run::Runtime& runtime) {
  return SampleWriter(set, make, runtime).run();
}

}  // namespace ddpm::denoise
