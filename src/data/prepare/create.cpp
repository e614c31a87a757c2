#include "data/prepare/create.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "comm/collectives.h"
#include "data/fill_shards.h"
#include "data/format.h"
#include "data/growing_folder.h"
#include "data/prepare/create_fields.h"
#include "data/prepare/create_plan.h"
#include "data/prepare/image_source.h"
#include "data/prepare/make_shard.h"

namespace ddpm::data::prepare {
namespace {

using base::FileSystem;

void check(const CreateOptions& options) {
  const auto [height, width] = options.fit.sides;
  if (std::min(height, width) < 1 || std::max(height, width) > kMostPictureSide) {
    throw base::ConfigError("--size {}x{}: wanted sides of 1 to {}", height, width, kMostPictureSide);
  }
  if (options.channels != 1 && options.channels != 3) {
    throw base::ConfigError("--channels {}: wanted 1 (grey) or 3 (RGB)", options.channels);
  }
  expect_shards(options.shards);
  expect_alignment(options.alignment);
  GrowingFolder::expect_name(options.output);
}

/// Arrays are stored as they are.
void expect_no_picture_options(const CreateOptions& options) {
  const CreateOptions plain;
  if (options.fit.sides == plain.fit.sides && options.fit.crop == plain.fit.crop &&
      options.fit.seed == plain.fit.seed && options.channels == plain.channels && options.validation_percent == 0.0 &&
      options.max_bad == plain.max_bad) {
    return;
  }
  throw base::ConfigError(
      "{}: arrays are stored as they are; --size, --crop, --channels, --seed, --max-bad and "
      "--validation-share are for pictures",
      options.source.paths.front().string());
}

/// Pictures have no names for their values.
void expect_no_array_options(const CreateOptions& options) {
  const ArrayOptions& arrays = options.arrays;
  const std::string& source = options.source.paths.front().string();
  if (!arrays.labels.empty()) {
    throw base::ConfigError("--labels {}: {} is not a file of arrays; wanted auto, folder or none", arrays.labels,
                            source);
  }
  const auto refuse = [&](const char* option, std::string_view value) {
    if (value.empty()) return;
    throw base::ConfigError(
        "{} {}: {} is not a .npy, .npz or HDF5 file or a dataset, whose arrays this option describes", option, value,
        source);
  };
  for (const NamedArray& array : arrays.named()) refuse(array.option, array.name);
  refuse("--names", arrays.names);
  refuse("--units", arrays.units);
  refuse("--transform", arrays.transforms);
}

void describe(const base::Logger& log, const ImageSource& source, int64_t shards, int ranks) {
  log.info("{}: {}", source.name(), source.description());
  tell_idle_ranks(log, shards, ranks);
}

/// Rank 0: looks through the source and makes the place for the output. The text is for open_source().
std::string begin(FileSystem& files, const CreateOptions& options, std::optional<GrowingFolder>& folder) {
  GrowingFolder::refuse_existing(files, options.output);
  std::string found = find_source(files, options.source);
  const auto source = open_source(files, options.source, found);
  const CreatePlan plan(options, *source);
  folder.emplace(files, options.output, plan.shard_names());
  folder->begin({.images = source->size(), .image_bytes = stored_format(options, source->dtype()).bytes()});
  return found;
}

/// Counts what cannot be used, and ends the work where it is too much.
class BadCount {
 public:
  BadCount(const BadLimit& limit, const ImageSource& source)
      : limit_(limit), left_out_(source.left_out()), total_(source.size() + std::ssize(left_out_)) {
    check(std::ssize(left_out_), left_out_);
  }

  /// Notes what was left out of a shard of this rank so far. Throws DatasetError when that alone is too much.
  void note(std::span<const Skipped> of_shard) {
    if (of_shard.empty()) return;
    of_shard_ = std::ssize(of_shard);
    last_ = shown(of_shard.back());
    if (std::ssize(left_out_) + finished_ + of_shard_ > limit_.of(total_)) check(bad_here(), of_shard);
  }
  void finish_shard() { finished_ += std::exchange(of_shard_, 0); }

  /// Collective: throws on all ranks when what all have left out is too much.
  void agree(comm::Communicator& comm) const {
    const int64_t bad = comm::all_reduce(comm, finished_, comm::ReduceOp::sum) + std::ssize(left_out_);
    if (bad <= limit_.of(total_)) return;
    std::string example;
    for (const std::string& text : comm::all_gather(comm, last_)) {
      if (example.empty()) example = text;
    }
    comm::agree(comm, [&] { limit_.check(bad, total_, example); });
  }

 private:
  static std::string shown(const Skipped& skipped) { return skipped.path + ": " + skipped.reason; }
  [[nodiscard]] int64_t bad_here() const { return std::ssize(left_out_) + finished_ + of_shard_; }
  void check(int64_t bad, std::span<const Skipped> examples) const {
    limit_.check(bad, total_, examples.empty() ? std::string() : shown(examples.back()));
  }

  const BadLimit& limit_;
  std::vector<Skipped> left_out_;
  int64_t total_;
  int64_t finished_ = 0;  // images left out of the shards that this rank has finished
  int64_t of_shard_ = 0;
  std::string last_;
};

using Progress = std::function<void(const CreateProgress&)>;

/// Turns what this rank has done of its share into images of all ranks.
class Share {
 public:
  Share(const CreatePlan& plan, const comm::Communicator& comm, int64_t images, const Progress& progress)
      : images_(images), progress_(progress) {
    for (int64_t i = comm.rank(); i < plan.shards(); i += comm.size()) cost_ += plan.cost(i);
  }
  void add(int64_t cost) {
    done_ += cost;
    const double part = static_cast<double>(done_) / static_cast<double>(cost_);
    if (progress_) progress_({static_cast<int64_t>(part * static_cast<double>(images_)), images_});
  }

 private:
  int64_t images_;
  const Progress& progress_;
  int64_t cost_ = 0;
  int64_t done_ = 0;
};

/// This rank's shards, those of index rank mod size. The ranks agree after each round, so that none works on for long
/// when another has failed.
std::vector<std::pair<int64_t, MadeShard>> make_shards(comm::Communicator& comm, FileSystem& files,
                                                       const CreateOptions& options, ImageSource& source,
                                                       const CreatePlan& plan, GrowingFolder& folder,
                                                       const Progress& progress) {
  std::optional<BadCount> bad;
  comm::agree(comm, [&] { bad.emplace(options.max_bad, source); });
  Share share(plan, comm, source.size(), progress);
  std::vector<std::pair<int64_t, MadeShard>> made;
  for (int64_t first = 0; first < plan.shards(); first += comm.size()) {
    comm::agree(comm, [&] {
      const int64_t i = first + comm.rank();
      if (i >= plan.shards()) return;
      const ShardTask task = plan.task(folder, i);
      made.emplace_back(i, make_shard(files, options, source, task, [&](int64_t k, std::span<const Skipped> skipped) {
                          bad->note(skipped);
                          share.add(cost_of(task.stamps[static_cast<std::size_t>(k)]));
                        }));
      bad->finish_shard();
    });
    bad->agree(comm);
  }
  return made;
}

/// All shards in order, on every rank.
std::vector<MadeShard> gather(comm::Communicator& comm, const ImageFormat& format,
                              const std::vector<std::pair<int64_t, MadeShard>>& made, int64_t shards) {
  std::string text = "[";
  for (const auto& [index, shard] : made) {
    text += fmt::format("{}[{},{},{}]", text.size() > 1 ? "," : "", index, shard.reused, to_json_text(shard));
  }
  std::vector<std::optional<MadeShard>> found(static_cast<std::size_t>(shards));
  for (const std::string& part : comm::all_gather(comm, text + "]")) {
    for (const base::Json& entry : base::Json::parse(part)) {
      MadeShard shard = parse_made_shard(entry.at(2).dump(), format, "shard of another rank");
      shard.reused = entry.at(1).get<bool>();
      found.at(entry.at(0).get<std::size_t>()) = std::move(shard);
    }
  }
  std::vector<MadeShard> all;
  all.reserve(found.size());
  for (auto& shard : found) all.push_back(std::move(shard).value());
  return all;
}

/// The shards of one part.
std::span<const MadeShard> shards_of(const CreatePlan& plan, std::size_t part, std::span<const MadeShard> shards) {
  std::size_t first = 0;
  for (std::size_t p = 0; p < part; ++p) first += static_cast<std::size_t>(plan.parts()[p].shards);
  return shards.subspan(first, static_cast<std::size_t>(plan.parts()[part].shards));
}

/// Everything that was left out of these shards, and of `others`, by path.
std::vector<Skipped> all_skipped(std::vector<Skipped> others, std::span<const MadeShard> shards) {
  for (const MadeShard& shard : shards) others.insert(others.end(), shard.skipped.begin(), shard.skipped.end());
  std::stable_sort(others.begin(), others.end(), [](const Skipped& a, const Skipped& b) { return a.path < b.path; });
  return others;
}

std::string skipped_text(const std::vector<Skipped>& all) {
  std::string text;
  for (const auto& [path, reason] : all) {
    const base::OrderedJson line = {{"path", path}, {"reason", reason}};
    text += line.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace) + "\n";
  }
  return text;
}

int64_t images_in(std::span<const MadeShard> shards) {
  return std::accumulate(shards.begin(), shards.end(), int64_t{0},
                         [](int64_t sum, const MadeShard& shard) { return sum + shard.result.info.count; });
}

std::vector<Field> fields_of(const CreateOptions& options, const ImageSource& source) {
  const ImageFormat format = stored_format(options, source.dtype());
  return image_fields(format, Normalization::of(format.dtype), source.has_labels());
}

/// Rank 0: the rest of the files, then the name.
void publish(FileSystem& files, const CreateOptions& options, const ImageSource& source, GrowingFolder& folder,
             const CreatePlan& plan, std::span<const MadeShard> shards) {
  const auto fields = fields_of(options, source);
  for (std::size_t part = 0; part < plan.parts().size(); ++part) {
    const auto of_part = shards_of(plan, part, shards);
    if (images_in(of_part) == 0) {
      throw base::DatasetError("{}: no image of the {} set can be used", source.name(),
                               part == 0 ? "training" : plan.parts()[part].folder);
    }
    std::vector<ShardResult> results;
    for (const MadeShard& shard : of_part) results.push_back(shard.result);
    const auto skipped = all_skipped(part == 0 ? source.left_out() : std::vector<Skipped>{}, of_part);
    const base::Path place = folder.path() / plan.parts()[part].folder;
    base::write_atomically(files, place / "skipped.jsonl", skipped_text(skipped));
    write_dataset_info(files, place, assemble(source.name(), fields, source.class_names(), results, options.alignment));
  }
  folder.publish(options.journal);
}

CreateResult summary(const CreateOptions& options, const ImageSource& source, const CreatePlan& plan,
                     std::span<const MadeShard> shards) {
  const auto skipped = all_skipped(source.left_out(), shards);
  CreateResult result;
  result.shards = std::ssize(shards);
  result.skipped = std::ssize(skipped);
  if (!skipped.empty()) result.first_skipped = skipped.front().path + ": " + skipped.front().reason;
  result.other_files = source.other_files();
  result.classes = source.classes();
  result.images = images_in(shards);
  if (plan.parts().size() > 1) result.validation_images = images_in(shards_of(plan, 1, shards));
  result.fields = fields_of(options, source);
  for (const MadeShard& shard : shards) {
    result.bytes += static_cast<int64_t>(shard.result.info.size);
    result.reused_shards += shard.reused ? 1 : 0;
  }
  return result;
}

}  // namespace

void expect_shards(int64_t shards) {
  if (shards < 1 || shards > kMostShards) throw base::ConfigError("--shards {}: wanted 1 to {}", shards, kMostShards);
}

CreateResult create(comm::Communicator& comm, FileSystem& files, const base::Logger& log, const CreateOptions& asked,
                    const std::function<void(const CreateProgress&)>& progress) {
  CreateOptions options = asked;
  options.output = base::plain_path(asked.output);
  comm::agree(comm, [&] { check(options); });
  if (comm::ask_root(comm, [&] { return holds_arrays(options.source, options.arrays); })) {
    comm::agree(comm, [&] { expect_no_picture_options(options); });
    return create_fields(comm, files, log, options, progress);
  }
  comm::agree(comm, [&] { expect_no_array_options(options); });
  std::optional<GrowingFolder> folder;
  const std::string found = comm::agree_on_root(comm, [&] { return begin(files, options, folder); });
  std::unique_ptr<ImageSource> source;
  std::optional<CreatePlan> plan;
  comm::agree(comm, [&] {
    source = open_source(files, options.source, found);
    plan.emplace(options, *source);
    if (!folder) folder.emplace(files, options.output, plan->shard_names());
    folder->join();
  });
  describe(log, *source, plan->shards(), comm.size());

  plan->look_at(comm, *source);
  const auto made = make_shards(comm, files, options, *source, *plan, *folder, progress);
  const auto shards = gather(comm, stored_format(options, source->dtype()), made, plan->shards());
  CreateResult result = summary(options, *source, *plan, shards);
  comm::do_on_root(comm, [&] {
    if (result.images == 0) {
      folder->discard();
      throw base::DatasetError("{}: none of {} can be used; what was left out first is {}", source->name(),
                               base::counted(source->size(), "image"), result.first_skipped);
    }
    publish(files, options, *source, *folder, *plan, shards);
  });
  return result;
}

}  // namespace ddpm::data::prepare
