#include "data/prepare/make_shard.h"

#include <cstddef>
#include <exception>
#include <optional>
#include <span>

#include <sys/stat.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "data/prepare/decode.h"

namespace ddpm::data::prepare {
namespace {

/// Raised when the same files and options would give other bytes than before.
constexpr int kRecipe = 1;

/// A digest of all that a shard is made from; files by name, size and time.
std::string fingerprint(const CreateOptions& options, const FolderListing& listing, const ShardTask& task) {
  base::Sha256 digest;
  digest.update(fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}\n", kRecipe, options.fit.size,
                            to_string(options.fit.crop), options.fit.seed, options.channels,
                            static_cast<int>(options.labels), options.limits.max_side, options.limits.max_pixels,
                            options.limits.max_jpeg_scans, options.max_file_bytes, task.index, task.shards,
                            task.candidates.begin));
  for (int64_t i = task.candidates.begin; i < task.candidates.end; ++i) {
    const std::string& path = listing.images[static_cast<std::size_t>(i)];
    struct stat status = {};
    const bool there = ::stat((options.source / path).c_str(), &status) == 0;
    digest.update(fmt::format("{}", path));
    digest.update(std::string_view("\0", 1));
    if (!there) continue;
    digest.update(fmt::format("{} {} {} {}\n", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                              listing.class_of(path)));
  }
  return digest.hex();
}

std::optional<MadeShard> take_over(const base::FileSystem& files, const CreateOptions& options, const ShardTask& task,
                                   const std::string& wanted) {
  if (!files.exists(task.journal_entry()) || !files.exists(task.file())) return std::nullopt;
  try {
    const std::string text = files.read(task.journal_entry(), base::JsonLimits{}.max_bytes);
    const base::Json entry = base::parse_json(text);
    if (entry.at("fingerprint") != wanted) return std::nullopt;
    MadeShard shard = parse_made_shard(entry.at("shard").dump(), stored_format(options), task.journal_entry().string());
    if (base::sha256_file(task.file()) != shard.result.info.sha256) return std::nullopt;
    shard.reused = true;
    return shard;
  } catch (const std::exception&) {
    return std::nullopt;  // whatever is wrong with the entry, the shard is made anew
  }
}

/// The text of `error` without the path that it begins with: a list of skipped files names paths in its own way.
std::string reason_of(const base::Error& error, const base::Path& path) {
  std::string_view text = error.what();
  const std::string prefix = path.string() + ": ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return std::string(text);
}

/// Reads, decodes and fits images one by one.
class ImageReader {
 public:
  ImageReader(const base::FileSystem& files, const CreateOptions& options, const FolderListing& listing)
      : files_(files), options_(options), listing_(listing) {}

  /// Candidate `index`, or absent with the reason added to `skipped`.
  std::optional<Image> read(int64_t index, std::vector<Skipped>& skipped) const {
    const std::string& name = listing_.images[static_cast<std::size_t>(index)];
    if (options_.labels == Labels::folder && listing_.class_of(name) < 0) {
      skipped.push_back({name, "not in a folder that could be its class"});
      return std::nullopt;
    }
    const base::Path path = options_.source / name;
    try {
      const std::string bytes = files_.read(path, options_.max_file_bytes);
      const Image image = decode_image(std::as_bytes(std::span(bytes)), options_.channels, options_.limits);
      return fit(image, options_.fit, static_cast<uint64_t>(index));
    } catch (const base::OutputError& error) {  // of the read
      skipped.push_back({name, reason_of(error, path)});
    } catch (const base::DatasetError& error) {  // of the decoder
      skipped.push_back({name, error.what()});
    }
    return std::nullopt;
  }

 private:
  const base::FileSystem& files_;
  const CreateOptions& options_;
  const FolderListing& listing_;
};

/// Collects images so that the writer gets them by the megabyte.
class Batch {
 public:
  Batch(ShardWriter& writer, const CreateOptions& options, const FolderListing& listing)
      : writer_(writer), listing_(options.labels == Labels::folder ? &listing : nullptr) {}

  void add(const Image& image, const std::string& name) {
    constexpr std::size_t kFlushAt = std::size_t{1} << 20U;
    images_.insert(images_.end(), image.pixels.begin(), image.pixels.end());
    if (listing_ != nullptr) labels_.push_back(listing_->class_of(name));
    if (images_.size() >= kFlushAt) flush();
  }
  void flush() {
    if (!images_.empty()) writer_.append(std::as_bytes(std::span(images_)), labels_);
    images_.clear();
    labels_.clear();
  }

 private:
  ShardWriter& writer_;
  const FolderListing* listing_;  // null: no labels
  std::vector<uint8_t> images_;
  std::vector<int64_t> labels_;
};

MadeShard make_anew(base::FileSystem& files, const CreateOptions& options, const FolderListing& listing,
                    const ShardTask& task, const std::function<void()>& on_image) {
  for (const char* suffix : {"", ".exact"}) files.remove_all(task.file().string() + suffix);
  MadeShard shard{{{}, Statistics(stored_format(options))}, {}, false};
  ShardWriter writer(files, task.file(), stored_format(options), options.labels == Labels::folder,
                     task.candidates.size());
  Batch batch(writer, options, listing);
  const ImageReader reader(files, options, listing);
  for (int64_t i = task.candidates.begin; i < task.candidates.end; ++i) {
    const auto image = reader.read(i, shard.skipped);
    if (image) batch.add(*image, listing.images[static_cast<std::size_t>(i)]);
    on_image();
  }
  batch.flush();
  shard.result = writer.finish();
  return shard;
}

}  // namespace

ImageFormat stored_format(const CreateOptions& options) {
  return {options.fit.size, options.fit.size, options.channels, base::DType::u8};
}

std::string to_json_text(const MadeShard& shard) {
  base::OrderedJson skipped = base::OrderedJson::array();
  for (const auto& [path, reason] : shard.skipped) skipped.push_back({{"path", path}, {"reason", reason}});
  const base::OrderedJson json = {{"result", base::OrderedJson::parse(data::to_json_text(shard.result))},
                                  {"skipped", skipped}};
  // Names of files need not be UTF-8.
  return json.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
}

MadeShard parse_made_shard(std::string_view text, const ImageFormat& format, const std::string& origin) {
  try {
    const base::Json json = base::parse_json(text);
    MadeShard shard{parse_shard_result(json.at("result").dump(), format, origin), {}, false};
    for (const base::Json& skipped : json.at("skipped")) {
      shard.skipped.push_back({skipped.at("path").get<std::string>(), skipped.at("reason").get<std::string>()});
    }
    return shard;
  } catch (const std::invalid_argument& error) {
    throw base::DatasetError("{}: {}", origin, error.what());
  } catch (const base::Json::exception& error) {
    throw base::DatasetError("{}: {}", origin, error.what());
  }
}

MadeShard make_shard(base::FileSystem& files, const CreateOptions& options, const FolderListing& listing,
                     const ShardTask& task, const std::function<void()>& on_image) {
  const std::string wanted = fingerprint(options, listing, task);
  if (auto shard = take_over(files, options, task, wanted)) {
    for (int64_t i = 0; i < task.candidates.size(); ++i) on_image();
    return *std::move(shard);
  }
  files.remove_all(task.journal_entry());
  try {
    MadeShard shard = make_anew(files, options, listing, task, on_image);
    const std::string entry = fmt::format("{{\"fingerprint\": \"{}\", \"shard\": {}}}\n", wanted, to_json_text(shard));
    base::write_atomically(files, task.journal_entry(), entry);
    return shard;
  } catch (const base::DatasetError& error) {  // HDF5's; there is no dataset to blame yet
    throw base::OutputError("{}", error.what());
  }
}

}  // namespace ddpm::data::prepare
