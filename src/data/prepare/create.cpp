#include "data/prepare/create.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "comm/collectives.h"
#include "data/growing_folder.h"
#include "data/prepare/image_source.h"
#include "data/prepare/make_shard.h"

namespace ddpm::data::prepare {
namespace {

using base::FileSystem;

void check(const CreateOptions& options) {
  constexpr int kMaxSize = 4096;
  constexpr int kMaxShards = 99999;  // five digits in the file name
  const auto [height, width] = options.fit.sides;
  if (std::min(height, width) < 1 || std::max(height, width) > kMaxSize) {
    throw base::ConfigError("--size {}x{}: wanted sides of 1 to {}", height, width, kMaxSize);
  }
  if (options.channels != 1 && options.channels != 3) {
    throw base::ConfigError("--channels {}: wanted 1 (grey) or 3 (RGB)", options.channels);
  }
  if (options.shards < 1 || options.shards > kMaxShards) {
    throw base::ConfigError("--shards {}: wanted 1 to {}", options.shards, kMaxShards);
  }
  if (!options.output.has_filename() || options.output.filename() == "..") {
    throw base::ConfigError("--output {}: wanted the name of a new folder", options.output.string());
  }
}

int64_t shard_count(const CreateOptions& options, const ImageSource& source) {
  return std::min<int64_t>(options.shards, source.size());
}

void describe(const base::Logger& log, const CreateOptions& options, const ImageSource& source, int ranks) {
  log.info("{}: {}", source.name(), source.description());
  const int64_t shards = shard_count(options, source);
  if (shards < ranks) {
    log.info("{} of {} ranks have work, with {}; --shards asks for more", shards, ranks,
             base::counted(shards, "shard"));
  }
}

/// Rank 0: looks through the source and makes the place for the output. The text is for open_source().
std::string begin(FileSystem& files, const CreateOptions& options, std::optional<GrowingFolder>& folder) {
  GrowingFolder::refuse_existing(files, options.output);
  std::string found = find_source(options.source);
  const auto source = open_source(files, options.source, found);
  folder.emplace(files, options.output, shard_count(options, *source));
  folder->begin({.images = source->size(), .image_bytes = stored_format(options).bytes()});
  return found;
}

/// This rank's shards, those of index rank mod size. The ranks agree after each round, so that none works on for long
/// when another has failed.
std::vector<std::pair<int64_t, MadeShard>> make_shards(comm::Communicator& comm, FileSystem& files,
                                                       const CreateOptions& options, ImageSource& source,
                                                       GrowingFolder& folder,
                                                       const std::function<void(const CreateProgress&)>& progress) {
  const int64_t shards = folder.shards();
  const auto candidates = [&](int64_t i) { return layout::even_part(source.size(), shards, i); };
  int64_t share = 0;
  for (int64_t i = comm.rank(); i < shards; i += comm.size()) share += candidates(i).size();
  int64_t done = 0;
  const auto on_image = [&, total = source.size()] {
    ++done;
    if (progress) progress({done * total / share, total});
  };
  std::vector<std::pair<int64_t, MadeShard>> made;
  for (int64_t first = 0; first < shards; first += comm.size()) {
    comm::agree(comm, [&] {
      const int64_t i = first + comm.rank();
      if (i >= shards) return;
      const ShardTask task{folder, i, candidates(i)};
      made.emplace_back(i, make_shard(files, options, source, task, on_image));
    });
  }
  return made;
}

/// All shards in order, on every rank.
std::vector<MadeShard> gather(comm::Communicator& comm, const CreateOptions& options,
                              const std::vector<std::pair<int64_t, MadeShard>>& made, int64_t shards) {
  std::string text = "[";
  for (const auto& [index, shard] : made) {
    text += fmt::format("{}[{},{},{}]", text.size() > 1 ? "," : "", index, shard.reused, to_json_text(shard));
  }
  std::vector<std::optional<MadeShard>> found(static_cast<std::size_t>(shards));
  for (const std::string& part : comm::all_gather(comm, text + "]")) {
    for (const base::Json& entry : base::Json::parse(part)) {
      MadeShard shard = parse_made_shard(entry.at(2).dump(), stored_format(options), "shard of another rank");
      shard.reused = entry.at(1).get<bool>();
      found.at(entry.at(0).get<std::size_t>()) = std::move(shard);
    }
  }
  std::vector<MadeShard> all;
  all.reserve(found.size());
  for (auto& shard : found) all.push_back(std::move(shard).value());
  return all;
}

/// Everything that was left out, by path.
std::vector<Skipped> all_skipped(const ImageSource& source, const std::vector<MadeShard>& shards) {
  std::vector<Skipped> all = source.left_out();
  for (const MadeShard& shard : shards) all.insert(all.end(), shard.skipped.begin(), shard.skipped.end());
  std::sort(all.begin(), all.end(), [](const Skipped& a, const Skipped& b) { return a.path < b.path; });
  return all;
}

std::string skipped_text(const std::vector<Skipped>& all) {
  std::string text;
  for (const auto& [path, reason] : all) {
    const base::OrderedJson line = {{"path", path}, {"reason", reason}};
    text += line.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace) + "\n";
  }
  return text;
}

/// Rank 0: the rest of the files, then the name.
void publish(FileSystem& files, const CreateOptions& options, const ImageSource& source, GrowingFolder& folder,
             const std::vector<MadeShard>& shards, const std::vector<Skipped>& skipped) {
  std::vector<ShardResult> results;
  results.reserve(shards.size());
  for (const MadeShard& shard : shards) results.push_back(shard.result);
  const auto fields = image_fields(stored_format(options), Normalization::of(base::DType::u8), source.has_labels());
  base::write_atomically(files, folder.path() / "skipped.jsonl", skipped_text(skipped));
  write_dataset_info(files, folder.path(), assemble(fields, source.class_names(), results));
  folder.publish();
}

CreateResult summary(const ImageSource& source, const std::vector<MadeShard>& shards,
                     const std::vector<Skipped>& skipped) {
  CreateResult result;
  result.shards = std::ssize(shards);
  result.skipped = std::ssize(skipped);
  if (!skipped.empty()) result.first_skipped = skipped.front().path + ": " + skipped.front().reason;
  result.other_files = source.other_files();
  result.classes = source.classes();
  for (const MadeShard& shard : shards) {
    result.images += shard.result.info.count;
    result.bytes += static_cast<int64_t>(shard.result.info.size);
    result.reused_shards += shard.reused ? 1 : 0;
  }
  return result;
}

}  // namespace

CreateResult create(comm::Communicator& comm, FileSystem& files, const base::Logger& log, const CreateOptions& asked,
                    const std::function<void(const CreateProgress&)>& progress) {
  CreateOptions options = asked;
  options.output = base::plain_path(asked.output);
  comm::agree(comm, [&] { check(options); });
  std::optional<GrowingFolder> folder;
  const std::string found = comm::agree_on_root(comm, [&] { return begin(files, options, folder); });
  std::unique_ptr<ImageSource> source;
  comm::agree(comm, [&] {
    source = open_source(files, options.source, found);
    if (!folder) folder.emplace(files, options.output, shard_count(options, *source));
    folder->join();
  });
  describe(log, options, *source, comm.size());

  const auto made = make_shards(comm, files, options, *source, *folder, progress);
  const auto shards = gather(comm, options, made, folder->shards());
  const auto skipped = all_skipped(*source, shards);
  CreateResult result = summary(*source, shards, skipped);
  comm::do_on_root(comm, [&] {
    if (result.images == 0) {
      folder->discard();
      throw base::DatasetError("{}: none of {} can be used; what was left out first is {}", source->name(),
                               base::counted(source->size(), "image"), result.first_skipped);
    }
    publish(files, options, *source, *folder, shards, skipped);
  });
  return result;
}

}  // namespace ddpm::data::prepare
