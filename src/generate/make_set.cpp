#include "generate/make_set.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/sha256.h"
#include "base/version.h"
#include "comm/collectives.h"
#include "data/fill_shards.h"
#include "data/growing_folder.h"
#include "data/writer.h"
#include "layout/range.h"

namespace ddpm::generate {
namespace {

/// Raised when the same description would give other bytes than before.
constexpr int kRecipe = 1;
constexpr std::size_t kFlushAt = std::size_t{1} << 20U;
constexpr const char* kDescription = "generate.json";

class SetWriter {
 public:
  SetWriter(comm::Communicator& world, base::FileSystem& files, const SetOptions& options, Generator& generator,
            const base::ProgressReport& progress)
      : world_(world),
        files_(files),
        count_(options.count),
        alignment_(options.alignment),
        seed_(options.seed),
        generator_(generator),
        progress_(progress),
        image_(generator.image_field()),
        has_labels_(!generator.class_names().empty()),
        identity_(generator.description().dump()),
        folder_(files, options.output, std::min(options.shards, options.count)) {}

  GeneratedSet run() {
    comm::do_on_root(world_, [&] { folder_.begin({.images = count_, .image_bytes = image_.bytes()}); });
    comm::agree(world_, [&] { folder_.join(); });
    const data::FilledShards filled = data::fill_shards(
        world_, folder_,
        {.format = image_.format(),
         .images = [&](int64_t shard) { return samples(shard); },
         .fingerprint = [&](int64_t shard) { return fingerprint(shard); },
         .make = [&](int64_t shard, const data::ShardProgress& progress) { return make(shard, progress); },
         .progress = progress_});
    comm::do_on_root(world_, [&] { publish(filled.results); });
    GeneratedSet done{.shards = folder_.shards(), .reused_shards = filled.reused};
    for (const data::ShardResult& shard : filled.results) done.bytes += static_cast<int64_t>(shard.info.size);
    return done;
  }

 private:
  [[nodiscard]] layout::Range samples(int64_t shard) const {
    return layout::even_part(count_, folder_.shards(), shard);
  }

  [[nodiscard]] std::string fingerprint(int64_t shard) const {
    base::Sha256 digest;
    digest.update(fmt::format("{} {} {} {} {}\n{}", kRecipe, folder_.shards(), shard, count_, seed_, identity_));
    if (alignment_ > 0) digest.update(fmt::format("\naligned {}", alignment_));
    return digest.hex();
  }

  data::ShardResult make(int64_t shard, const data::ShardProgress& progress) {
    const layout::Range all = samples(shard);
    const std::vector<std::string> columns(has_labels_ ? 1 : 0, data::kLabelsPath);
    data::ShardWriter writer(files_, folder_.shard_file(shard), image_.format(), columns, all.size(), alignment_);
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
        progress(static_cast<double>(first + i + 1 - all.begin));
      }
      writer.append(images, std::vector<std::span<const int64_t>>(has_labels_ ? 1 : 0, labels));
    }
    return writer.finish();
  }

  /// Rank 0: the descriptions, then the name.
  void publish(const std::vector<data::ShardResult>& shards) {
    std::vector<data::Field> fields = {image_};
    if (has_labels_)
      fields.push_back(data::make_field(data::FieldRole::labels, data::kLabelsPath, {}, base::DType::i64, false));
    base::OrderedJson description = {{"ddpm", base::kVersion}, {"count", count_}, {"seed", seed_}};
    description.update(generator_.description());
    base::write_atomically(files_, folder_.path() / kDescription, description.dump(2) + "\n");
    const auto info = data::assemble(folder_.path().string(), fields, generator_.class_names(), shards, alignment_);
    data::write_dataset_info(files_, folder_.path(), info);
    folder_.publish();
  }

  comm::Communicator& world_;
  base::FileSystem& files_;
  int64_t count_;
  int64_t alignment_;
  uint64_t seed_;
  Generator& generator_;
  const base::ProgressReport& progress_;
  data::Field image_;
  bool has_labels_;
  std::string identity_;
  data::GrowingFolder folder_;
};

}  // namespace

GeneratedSet make_set(comm::Communicator& comm, base::FileSystem& files, const SetOptions& options,
                      Generator& generator, const base::ProgressReport& progress) {
  SetOptions plain = options;
  plain.output = base::plain_path(options.output);
  comm::agree(comm, [&] {
    if (plain.count < 1 || plain.count > kMostSamples) {
      throw base::ConfigError("--count {}: wanted 1 to {}", plain.count, kMostSamples);
    }
    if (plain.shards < 1 || plain.shards > data::kMostShards) {
      throw base::ConfigError("--shards {}: wanted 1 to {}", plain.shards, data::kMostShards);
    }
    data::expect_alignment(plain.alignment);
    data::GrowingFolder::expect_name(plain.output);
  });
  return SetWriter(comm, files, plain, generator, progress).run();
}

}  // namespace ddpm::generate
