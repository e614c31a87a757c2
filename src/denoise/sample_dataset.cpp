#include "denoise/sample_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/product.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "comm/collectives.h"
#include "data/fill_shards.h"
#include "data/growing_folder.h"
#include "data/writer.h"
#include "layout/range.h"
#include "observe/progress_bar.h"

namespace ddpm::denoise {
namespace {

constexpr int64_t kMostShards = 256;
constexpr int64_t kWantedGroups = 16;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr int64_t kMostPixels = int64_t{1} << 22;  // of a group: with 64 channels in float32 1 GiB
/// Raised when the same identity would give other bytes than before.
constexpr int kRecipe = 3;

int64_t group_by_number(int64_t samples) {
  return std::clamp<int64_t>((samples + kWantedGroups - 1) / kWantedGroups, 1, kLargestGroup);
}

/// The group, or a half of it, a quarter and so on, until its pixels fit into memory.
int64_t fitting(int64_t group, int64_t pixels) {
  while (group > 1 && group * pixels > kMostPixels) group = (group + 1) / 2;
  return group;
}

class SampleWriter {
 public:
  SampleWriter(const SampleDataset& set, const MakeSamples& make, const run::Runtime& runtime)
      : set_(set),
        make_(make),
        runtime_(runtime),
        world_(runtime.session.world()),
        group_(sample_group(set.count, pixels())),
        folder_(runtime.files, set.output, sample_shards(set.count, pixels(), format().bytes())) {}

  SampledDataset run() {
    if (comm::ask_root(world_, [&] { return is_complete(); })) {
      comm::do_on_root(world_, [&] { data::GrowingFolder::clear_notes(runtime_.files, set_.output); });
      return {.shards = folder_.shards(), .was_complete = true};
    }
    comm::do_on_root(world_,
                     [&] { folder_.begin({.images = set_.count, .image_bytes = format().bytes()}, made_by()); });
    comm::agree(world_, [&] { folder_.join(); });
    const data::FilledShards filled = data::fill_shards(
        world_, folder_,
        {.format = format(),
         .images = [&](int64_t shard) { return samples(shard); },
         .fingerprint = [&](int64_t shard) { return fingerprint(shard); },
         .make = [&](int64_t shard, const data::ShardProgress& progress) { return make_shard(shard, progress); },
         .progress = [&](int64_t done, int64_t total) { tell(done, total); }});
    bar_.reset();
    comm::do_on_root(world_, [&] { publish(filled.results); });
    return {.shards = folder_.shards(), .reused_shards = filled.reused, .reused_samples = filled.reused_images};
  }

 private:
  [[nodiscard]] data::ImageFormat format() const { return set_.fields.front().format(); }
  [[nodiscard]] int64_t pixels() const { return base::product_of(format().sides()); }
  [[nodiscard]] layout::Range samples(int64_t shard) const {
    return layout::aligned_part(set_.count, folder_.shards(), shard, group_);
  }
  [[nodiscard]] std::string fingerprint(int64_t shard) const {
    base::Sha256 digest;
    digest.update(fmt::format("{} {}\n{}", folder_.shards(), shard, made_by()));
    return digest.hex();
  }

  /// What the set was made by, which is compared with a later command's.
  [[nodiscard]] std::string made_by() const {
    const std::string by = group_ < group_by_number(set_.count) ? fmt::format(" by {}", group_) : "";
    return fmt::format("recipe {}\nsamples {}{}\n{}", kRecipe, set_.count, by, set_.identity);
  }
  [[nodiscard]] bool is_complete() const {
    return data::GrowingFolder::made_by(runtime_.files, set_.output) == made_by();
  }

  /// The rate that the bar shows is that of the samples that are made now.
  void tell(int64_t done, int64_t total) {
    if (!bar_) {
      bar_.emplace(observe::progress_style(observe::ProgressChoice::automatic, runtime_.log.speaks(),
                                           base::stderr_is_terminal()),
                   observe::ProgressBarOptions{.label = "sample", .unit = "sample", .first = done, .total = total});
    }
    bar_->update(done);
  }

  data::ShardResult make_shard(int64_t shard, const data::ShardProgress& progress) {
    const layout::Range all = samples(shard);
    std::vector<std::string> paths;
    for (const NumberColumn& column : set_.columns) paths.push_back(column.path);
    data::ShardWriter writer(runtime_.files, folder_.shard_file(shard), format(), paths, all.size());
    for (int64_t first = all.begin; first < all.end; first += group_) {
      const int64_t n = std::min(group_, all.end - first);
      const at::Tensor images = make_(first, n, [&](double made) {
        progress(static_cast<double>(first - all.begin) + made * static_cast<double>(n));
      });
      append(writer, first, images);
    }
    return writer.finish();
  }

  void append(data::ShardWriter& writer, int64_t first, const at::Tensor& images) const {
    DDPM_CHECK(images.is_contiguous() && images.nbytes() == static_cast<std::size_t>(images.size(0)) * format().bytes(),
               "samples of {} bytes, {} are wanted for each", images.nbytes(), format().bytes());
    const std::vector<std::vector<int64_t>> numbers = numbers_of(set_.columns, first, images.size(0));
    writer.append({static_cast<const std::byte*>(images.const_data_ptr()), images.nbytes()},
                  {numbers.begin(), numbers.end()});
  }

  /// Rank 0: the description, then the name.
  void publish(const std::vector<data::ShardResult>& shards) {
    data::write_dataset_info(runtime_.files, folder_.path(),
                             data::assemble(folder_.path().string(), set_.fields, set_.class_names, shards));
    folder_.publish();
  }

  const SampleDataset& set_;
  const MakeSamples& make_;
  const run::Runtime& runtime_;
  comm::Communicator& world_;
  int64_t group_;
  data::GrowingFolder folder_;
  std::optional<observe::ProgressBar> bar_;
};

}  // namespace

std::vector<NumberColumn> number_columns(const SampleInputs& inputs) {
  std::vector<NumberColumn> columns;
  if (inputs.label(0)) {
    columns.push_back({data::kLabelsPath, [&inputs](int64_t sample) { return inputs.label(sample).value(); }});
  }
  if (inputs.samples() > 0) {
    const int64_t members = inputs.members();
    columns.push_back({"/condition_index", [members](int64_t sample) { return sample / members; }});
    columns.push_back({"/member", [members](int64_t sample) { return sample % members; }});
  }
  return columns;
}

std::vector<std::vector<int64_t>> numbers_of(const std::vector<NumberColumn>& columns, int64_t first, int64_t n) {
  std::vector<std::vector<int64_t>> numbers;
  for (const NumberColumn& column : columns) {
    std::vector<int64_t>& of_column = numbers.emplace_back();
    for (int64_t i = 0; i < n; ++i) of_column.push_back(column.number(first + i));
  }
  return numbers;
}

int64_t sample_group(int64_t samples, int64_t pixels) { return fitting(group_by_number(samples), pixels); }

int64_t largest_group(int64_t pixels) { return fitting(kLargestGroup, pixels); }

int64_t sample_shards(int64_t samples, int64_t pixels, uint64_t sample_bytes) {
  const int64_t group = sample_group(samples, pixels);
  const int64_t groups = (samples + group - 1) / group;
  const int64_t by_number = std::min(kMostShards, groups);
  const auto bytes = static_cast<uint64_t>(samples) * sample_bytes;
  const auto by_bytes = static_cast<int64_t>((bytes + kMostBytes - 1) / kMostBytes);
  return std::clamp<int64_t>(std::max(by_number, by_bytes), 1, groups);
}

SampledDataset write_samples(const SampleDataset& set, const MakeSamples& make, const run::Runtime& runtime) {
  return SampleWriter(set, make, runtime).run();
}

}  // namespace ddpm::denoise
