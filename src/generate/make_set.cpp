#include "generate/make_set.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/pulse.h"
#include "base/sha256.h"
#include "base/version.h"
#include "comm/collectives.h"
#include "data/growing_folder.h"
#include "data/writer.h"
#include "layout/range.h"

namespace ddpm::generate {
namespace {

/// Raised when the same description would give other bytes than before.
constexpr int kRecipe = 1;
constexpr std::size_t kFlushAt = std::size_t{1} << 20U;
constexpr const char* kDescription = "generate.json";

/// HDF5's failures are dataset errors, but here a file is being written.
template <typename Work>
auto as_output(const Work& work) {
  try {
    return work();
  } catch (const base::DatasetError& error) {
    throw base::OutputError("{}", error.what());
  }
}

class SetWriter {
 public:
  SetWriter(comm::Communicator& world, base::FileSystem& files, const SetOptions& options, Generator& generator,
            const Progress& progress)
      : world_(world),
        files_(files),
        count_(options.count),
        seed_(options.seed),
        generator_(generator),
        progress_(progress),
        image_(generator.image_field()),
        has_labels_(!generator.class_names().empty()),
        identity_(generator.description().dump()),
        folder_(files, options.output, std::min(options.shards, options.count)) {
    for (int64_t i = world_.rank(); i < folder_.shards(); i += world_.size()) share_ += samples(i).size();
  }

  GeneratedSet run() {
    comm::do_on_root(world_, [&] { folder_.begin({.images = count_, .image_bytes = image_.bytes()}); });
    comm::agree(world_, [&] { folder_.join(); });
    // The ranks agree after each round, so that none works on for long when another has failed.
    for (int64_t first = 0; first < folder_.shards(); first += world_.size()) {
      comm::agree(world_, [&] {
        const int64_t shard = first + world_.rank();
        if (shard < folder_.shards()) made_.emplace_back(shard, take_over_or_make(shard));
      });
    }
    const std::vector<data::ShardResult> all = gather();
    comm::do_on_root(world_, [&] { publish(all); });
    GeneratedSet done{.shards = folder_.shards(),
                      .reused_shards = comm::all_reduce(world_, reused_, comm::ReduceOp::sum)};
    for (const data::ShardResult& shard : all) done.bytes += static_cast<int64_t>(shard.info.size);
    return done;
  }

 private:
  [[nodiscard]] layout::Range samples(int64_t shard) const {
    return layout::even_part(count_, folder_.shards(), shard);
  }

  [[nodiscard]] std::string fingerprint(int64_t shard) const {
    base::Sha256 digest;
    digest.update(fmt::format("{} {} {} {} {}\n{}", kRecipe, folder_.shards(), shard, count_, seed_, identity_));
    return digest.hex();
  }

  data::ShardResult take_over_or_make(int64_t shard) {
    if (const std::optional<base::Json> note = folder_.note_of(shard, fingerprint(shard))) {
      try {
        auto result = data::parse_shard_result(note->dump(), image_.format(), folder_.shard_file(shard).string());
        ++reused_;
        tell(samples(shard).size());
        return result;
      } catch (const base::DatasetError&) {
        // Whatever is wrong with the note, the shard is made anew.
      }
    }
    return make(shard);
  }

  data::ShardResult make(int64_t shard) {
    folder_.clear(shard);
    const layout::Range all = samples(shard);
    data::ShardWriter writer = as_output([&] {
      const std::vector<std::string> columns(has_labels_ ? 1 : 0, data::kLabelsPath);
      return data::ShardWriter(files_, folder_.shard_file(shard), image_.format(), columns, all.size());
    });
    const std::size_t bytes = image_.bytes();
    const auto group = static_cast<int64_t>(std::max<std::size_t>(1, kFlushAt / bytes));
    std::vector<std::byte> images;
    std::vector<int64_t> labels;
    for (int64_t first = all.begin; first < all.end; first += group) {
      const int64_t n = std::min(group, all.end - first);
      images.resize(static_cast<std::size_t>(n) * bytes);
      labels.clear();
      for (int64_t i = 0; i < n; ++i) {
        generator_.make(first + i, std::span(images).subspan(static_cast<std::size_t>(i) * bytes, bytes));
        labels.push_back(generator_.label(first + i));
        base::pulse();
        tell(1);
      }
      const std::vector<std::span<const int64_t>> columns(has_labels_ ? 1 : 0, labels);
      as_output([&] { writer.append(images, columns); });
    }
    data::ShardResult finished = as_output([&] { return writer.finish(); });
    folder_.note(shard, fingerprint(shard), finished.info.sha256, data::to_json_text(finished));
    return finished;
  }

  void tell(int64_t samples_done) {
    done_ += samples_done;
    if (progress_)
      progress_(
          static_cast<int64_t>(static_cast<double>(done_) / static_cast<double>(share_) * static_cast<double>(count_)),
          count_);
  }

  /// The results of all shards, in order, on every rank.
  std::vector<data::ShardResult> gather() {
    base::Json mine = base::Json::array();
    for (const auto& [shard, result] : made_) mine.push_back({shard, base::Json::parse(data::to_json_text(result))});
    std::vector<std::optional<data::ShardResult>> found(static_cast<std::size_t>(folder_.shards()));
    for (const std::string& theirs : comm::all_gather(world_, mine.dump())) {
      for (const base::Json& entry : base::Json::parse(theirs)) {
        found.at(entry.at(0).get<std::size_t>()) =
            data::parse_shard_result(entry.at(1).dump(), image_.format(), "shard of another rank");
      }
    }
    std::vector<data::ShardResult> all;
    all.reserve(found.size());
    for (auto& result : found) all.push_back(std::move(result).value());
    return all;
  }

  /// Rank 0: the descriptions, then the name.
  void publish(const std::vector<data::ShardResult>& shards) {
    std::vector<data::Field> fields = {image_};
    if (has_labels_)
      fields.push_back(data::make_field(data::FieldRole::labels, data::kLabelsPath, {}, base::DType::i64, false));
    base::OrderedJson description = {{"ddpm", base::kVersion}, {"count", count_}, {"seed", seed_}};
    description.update(generator_.description());
    base::write_atomically(files_, folder_.path() / kDescription, description.dump(2) + "\n");
    as_output([&] {
      data::write_dataset_info(files_, folder_.path(), data::assemble(fields, generator_.class_names(), shards));
    });
    folder_.publish();
  }

  comm::Communicator& world_;
  base::FileSystem& files_;
  int64_t count_;
  uint64_t seed_;
  Generator& generator_;
  const Progress& progress_;
  data::Field image_;
  bool has_labels_;
  std::string identity_;
  data::GrowingFolder folder_;
  int64_t share_ = 0;   // samples of this rank
  int64_t done_ = 0;    // of them
  int64_t reused_ = 0;  // shards of this rank
  std::vector<std::pair<int64_t, data::ShardResult>> made_;
};

}  // namespace

GeneratedSet make_set(comm::Communicator& comm, base::FileSystem& files, const SetOptions& options,
                      Generator& generator, const Progress& progress) {
  SetOptions plain = options;
  plain.output = base::plain_path(options.output);
  comm::agree(comm, [&] {
    if (plain.output.has_filename() && plain.output.filename() != "..") return;
    throw base::ConfigError("--output {}: wanted the name of a new folder", plain.output.string());
  });
  return SetWriter(comm, files, plain, generator, progress).run();
}

}  // namespace ddpm::generate
