#include "data/prepare/make_shard.h"

#include <cstddef>
#include <new>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/named.h"
#include "base/pulse.h"
#include "base/sha256.h"
#include "data/prepare/image.h"
#include "data/writer.h"

namespace ddpm::data::prepare {
namespace {

/// Raised when the same files and options would give other bytes than before.
constexpr int kRecipe = 2;

/// A digest of all that a shard is made from.
std::string fingerprint(const CreateOptions& options, const ImageSource& source, const ShardTask& task) {
  base::Sha256 digest;
  digest.update(fmt::format("{} {}x{} {} {} {} {} {} {}\n", kRecipe, options.fit.sides.height, options.fit.sides.width,
                            base::name_of(options.fit.crop), options.fit.seed, options.channels,
                            static_cast<int>(source.dtype()), source.has_labels(), task.file().filename().string()));
  if (options.alignment > 0) digest.update(fmt::format("aligned {}\n", options.alignment));
  for (const int64_t candidate : task.candidates) digest.update(fmt::format("{} ", candidate));
  source.identify(task.candidates, task.stamps, digest);
  return digest.hex();
}

std::optional<MadeShard> take_over(const ImageFormat& format, const ShardTask& task, const std::string& wanted) {
  const std::optional<base::Json> note = task.folder.note_of(task.index, wanted);
  if (!note) return std::nullopt;
  try {
    MadeShard shard = parse_made_shard(note->dump(), format, task.file().string());
    shard.reused = true;
    return shard;
  } catch (const base::DatasetError&) {
    return std::nullopt;  // whatever is wrong with the note, the shard is made anew
  }
}

/// The shard's file, which gets its images by the megabyte.
class Output {
 public:
  Output(base::FileSystem& files, const ShardTask& task, const ImageFormat& format, bool labels, int64_t alignment)
      : writer_(files, task.file(), format, std::vector<std::string>(labels ? 1 : 0, kLabelsPath),
                std::ssize(task.candidates), alignment),
        columns_(labels ? 1 : 0) {}

  template <typename T>
  void add(const BasicImage<T>& image, int64_t label) {
    constexpr std::size_t kFlushAt = std::size_t{1} << 20U;
    const auto bytes = std::as_bytes(std::span(image.pixels));
    images_.insert(images_.end(), bytes.begin(), bytes.end());
    labels_.push_back(label);
    if (images_.size() >= kFlushAt) flush();
  }
  ShardResult finish() {
    flush();
    return writer_.finish();
  }

 private:
  void flush() {
    if (images_.empty()) return;
    writer_.append(images_, {columns_, labels_});
    images_.clear();
    labels_.clear();
  }

  ShardWriter writer_;
  std::size_t columns_;  // 1: of labels
  std::vector<std::byte> images_;
  std::vector<int64_t> labels_;
};

MadeShard make_anew(base::FileSystem& files, const CreateOptions& options, ImageSource& source, const ShardTask& task,
                    const OnImage& on_image) {
  const ImageFormat format = stored_format(options, source.dtype());
  MadeShard shard{{{}, Statistics(format)}, {}, false};
  Output output(files, task, format, source.has_labels(), options.alignment);
  for (std::size_t k = 0; k < task.candidates.size(); ++k) {
    const int64_t i = task.candidates[k];
    const auto sample = source.read(i, options.channels, shard.skipped);
    if (sample) {
      const auto index = static_cast<uint64_t>(i);
      std::visit([&](const auto& image) { output.add(fit(image, options.fit, index), sample->label); }, sample->image);
    }
    base::pulse();
    on_image(static_cast<int64_t>(k), shard.skipped);
  }
  shard.result = output.finish();
  return shard;
}

}  // namespace

ImageFormat stored_format(const CreateOptions& options, base::DType dtype) {
  return {options.fit.sides.height, options.fit.sides.width, options.channels, dtype};
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

MadeShard make_shard(base::FileSystem& files, const CreateOptions& options, ImageSource& source, const ShardTask& task,
                     const OnImage& on_image) try {
  const std::string wanted = fingerprint(options, source, task);
  if (auto shard = take_over(stored_format(options, source.dtype()), task, wanted)) {
    for (int64_t k = 0; k < std::ssize(task.candidates); ++k) on_image(k, shard->skipped);
    return *std::move(shard);
  }
  task.folder.clear(task.index);
  MadeShard shard = make_anew(files, options, source, task, on_image);
  task.folder.note(task.index, wanted, shard.result.info.sha256, to_json_text(shard));
  return shard;
} catch (const std::bad_alloc&) {
  task.folder.refuse_for_memory(task.index);
}

}  // namespace ddpm::data::prepare
