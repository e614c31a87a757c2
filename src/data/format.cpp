#include "data/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "base/sha256.h"

namespace ddpm::data {

namespace {

using base::DatasetError;
using base::DType;
using base::Json;
using base::OrderedJson;

// Limits that no real set reaches; they keep every product below far from overflow.
constexpr int64_t kMaxChannels = 4096;
constexpr int64_t kMaxImageElements = int64_t{1} << 31;
constexpr int64_t kMaxImages = int64_t{1} << 40;
constexpr uint64_t kMaxDescriptionBytes = 256U << 20U;
constexpr std::size_t kDigestLength = 64;
constexpr std::size_t kMaxNameBytes = 255;

std::string_view name_of(DType dtype) { return dtype == DType::u8 ? "uint8" : "float32"; }

/// Typed access to one JSON object whose keys are all known; messages name file and key.
class Object {
 public:
  Object(const Json& json, std::string where, std::initializer_list<std::string_view> keys)
      : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw DatasetError("{}: an object is wanted", where_);
    for (const auto& [key, value] : json.items()) {
      if (std::ranges::find(keys, key) == keys.end()) throw DatasetError("{}: unknown key \"{}\"", where_, key);
    }
    for (const std::string_view key : keys) {
      if (!json.contains(key)) throw DatasetError("{}: key \"{}\" is missing", where_, key);
    }
  }

  [[nodiscard]] int64_t integer(const char* key, int64_t min, int64_t max) const {
    const Json& value = json_.at(key);
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) ||
        value.get<int64_t>() < min || value.get<int64_t>() > max) {
      throw DatasetError("{}: \"{}\" is {}, an integer from {} to {} is wanted", where_, key, base::excerpt(value), min,
                         max);
    }
    return value.get<int64_t>();
  }
  [[nodiscard]] double number(const char* key) const {
    const Json& value = json_.at(key);
    if (!value.is_number())
      throw DatasetError("{}: \"{}\" is {}, a number is wanted", where_, key, base::excerpt(value));
    return value.get<double>();
  }
  [[nodiscard]] bool boolean(const char* key) const {
    const Json& value = json_.at(key);
    if (!value.is_boolean())
      throw DatasetError("{}: \"{}\" is {}, true or false is wanted", where_, key, base::excerpt(value));
    return value.get<bool>();
  }
  [[nodiscard]] std::string text(const char* key) const { return text(json_.at(key), key); }
  [[nodiscard]] std::string text(const Json& value, const char* key) const {
    if (!value.is_string())
      throw DatasetError("{}: \"{}\" holds {}, a string is wanted", where_, key, base::excerpt(value));
    return value.get<std::string>();
  }
  [[nodiscard]] std::string digest(const char* key) const {
    std::string value = text(key);
    if (value.size() != kDigestLength || value.find_first_not_of("0123456789abcdef") != std::string::npos) {
      throw DatasetError("{}: \"{}\" is not a SHA-256 in lower-case hexadecimal", where_, key);
    }
    return value;
  }
  [[nodiscard]] const Json& array(const char* key) const {
    const Json& value = json_.at(key);
    if (!value.is_array()) throw DatasetError("{}: \"{}\" is not an array", where_, key);
    return value;
  }
  [[nodiscard]] const Json& at(const char* key) const { return json_.at(key); }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const Json& json_;
  std::string where_;
};

Json parse_or_throw(std::string_view text, const std::string& origin) {
  try {
    return base::parse_json(text, {.max_bytes = kMaxDescriptionBytes, .max_depth = 8});
  } catch (const std::invalid_argument& error) {
    throw DatasetError("{}: {}", origin, error.what());
  }
}

/// Everything but the checksum, which is taken over this text.
OrderedJson description_of(const DatasetInfo& info) {
  OrderedJson json;
  json["format"] = "ddpm-dataset";
  json["version"] = kFormatVersion;
  json["count"] = info.count;
  json["height"] = info.image.height;
  json["width"] = info.image.width;
  json["channels"] = info.image.channels;
  json["dtype"] = name_of(info.image.dtype);
  json["normalization"] = {{"scale", info.normalization.scale}, {"offset", info.normalization.offset}};
  json["has_labels"] = info.has_labels;
  json["class_names"] = info.class_names;
  OrderedJson statistics = OrderedJson::array();
  for (const ChannelStatistics& s : info.statistics) {
    statistics.push_back({{"mean", s.mean}, {"std", s.std}, {"min", s.min}, {"max", s.max}});
  }
  json["statistics"] = std::move(statistics);
  OrderedJson shards = OrderedJson::array();
  for (const ShardInfo& s : info.shards) {
    shards.push_back({{"file", s.file},
                      {"first", s.first},
                      {"count", s.count},
                      {"size", s.size},
                      {"sha256", s.sha256},
                      {"header_size", s.header_size},
                      {"header_sha256", s.header_sha256}});
  }
  json["shards"] = std::move(shards);
  return json;
}

ImageFormat parse_image(const Object& root) {
  ImageFormat image{.height = root.integer("height", 1, kMaxSide),
                    .width = root.integer("width", 1, kMaxSide),
                    .channels = root.integer("channels", 1, kMaxChannels),
                    .dtype = DType::u8};
  if (image.elements() > kMaxImageElements) {
    throw DatasetError("{}: images of {}x{}x{} are larger than {} elements", root.where(), image.height, image.width,
                       image.channels, kMaxImageElements);
  }
  const std::string dtype = root.text("dtype");
  if (dtype == name_of(DType::f32)) {
    image.dtype = DType::f32;
  } else if (dtype != name_of(DType::u8)) {
    throw DatasetError("{}: \"dtype\" is \"{}\", uint8 or float32 is wanted", root.where(), dtype);
  }
  return image;
}

Normalization parse_normalization(const Object& root, DType dtype) {
  const Object object(root.at("normalization"), root.where() + ": normalization", {"scale", "offset"});
  const Normalization normalization{.scale = object.number("scale"), .offset = object.number("offset")};
  if (normalization.scale == 0.0) throw DatasetError("{}: \"scale\" is 0, images would vanish", object.where());
  if (dtype == DType::u8 && normalization != Normalization::of(DType::u8)) {
    throw DatasetError("{}: uint8 images are always x / 127.5 - 1, not x * {} + {}", object.where(),
                       normalization.scale, normalization.offset);
  }
  return normalization;
}

std::vector<ChannelStatistics> parse_statistics(const Object& root, int64_t channels) {
  std::vector<ChannelStatistics> all;
  for (const Json& item : root.array("statistics")) {
    const Object s(item, root.where() + ": statistics", {"mean", "std", "min", "max"});
    all.push_back({.mean = s.number("mean"), .std = s.number("std"), .min = s.number("min"), .max = s.number("max")});
  }
  if (std::ssize(all) != channels) {
    throw DatasetError("{}: statistics of {} channels, {} are wanted", root.where(), all.size(), channels);
  }
  return all;
}

ShardInfo parse_shard(const Json& json, const std::string& where, const ImageFormat& image) {
  const Object object(json, where, {"file", "first", "count", "size", "sha256", "header_size", "header_sha256"});
  ShardInfo shard{.file = object.text("file"),
                  .first = object.integer("first", 0, kMaxImages),
                  .count = object.integer("count", 0, kMaxImages),
                  .size = static_cast<uint64_t>(object.integer("size", 1, INT64_MAX)),
                  .sha256 = object.digest("sha256"),
                  .header_size = static_cast<uint64_t>(object.integer("header_size", 1, INT64_MAX)),
                  .header_sha256 = object.digest("header_sha256")};
  const auto separates = [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  };
  const bool plain = !shard.file.empty() && shard.file.size() <= kMaxNameBytes && shard.file.front() != '.' &&
                     std::ranges::none_of(shard.file, separates);
  if (!plain) throw DatasetError("{}: \"file\" is {}, a plain file name is wanted", where, base::excerpt(shard.file));
  uint64_t pixels = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(shard.count), image.bytes(), &pixels) ||
      shard.header_size > shard.size || shard.size - shard.header_size != pixels) {
    throw DatasetError("{}: {} images of {} bytes after a header of {} do not make {} bytes", where, shard.count,
                       image.bytes(), shard.header_size, shard.size);
  }
  return shard;
}

std::vector<ShardInfo> parse_shards(const Object& root, int64_t count, const ImageFormat& image) {
  std::vector<ShardInfo> shards;
  std::set<std::string> names;
  int64_t next = 0;
  for (const Json& item : root.array("shards")) {
    const std::string where = fmt::format("{}: shard {}", root.where(), shards.size());
    shards.push_back(parse_shard(item, where, image));
    if (shards.back().first != next) {
      throw DatasetError("{}: \"first\" is {}, after the shards before it {} is wanted", where, shards.back().first,
                         next);
    }
    if (!names.insert(shards.back().file).second) {
      throw DatasetError("{}: \"file\" is \"{}\", as of a shard before it", where, shards.back().file);
    }
    next += shards.back().count;  // both far below overflow: the sum stays within count + kMaxImages
    if (next > count) break;
  }
  if (next != count) throw DatasetError("{}: \"count\" is {}, the shards hold {}", root.where(), count, next);
  return shards;
}

}  // namespace

Normalization Normalization::of(DType dtype) {
  return dtype == DType::u8 ? Normalization{.scale = 1.0 / 127.5, .offset = -1.0} : Normalization{};
}

std::string shard_file_name(int64_t index, int64_t shards) {
  return fmt::format("shard-{:05}-of-{:05}.h5", index, shards);
}

std::string to_json_text(const DatasetInfo& info) {
  OrderedJson json = description_of(info);
  try {
    json["checksum"] = base::sha256_hex(json.dump());
  } catch (const OrderedJson::type_error& error) {
    throw DatasetError("{}: a class name is not UTF-8: {}", kDescriptionFile, error.what());
  }
  return json.dump(2) + "\n";
}

DatasetInfo parse_dataset_info(std::string_view text, const std::string& origin) {
  const Json json = parse_or_throw(text, origin);
  // The version first: a newer one may have other keys.
  if (!json.is_object() || !json.contains("format") || json["format"] != "ddpm-dataset" || !json.contains("version")) {
    throw DatasetError("{}: this is not the description of a dataset", origin);
  }
  if (json["version"] != kFormatVersion) {
    throw DatasetError("{}: format version {}, this program reads version {}", origin, base::excerpt(json["version"]),
                       kFormatVersion);
  }
  const Object root(json, origin,
                    {"format", "version", "count", "height", "width", "channels", "dtype", "normalization",
                     "has_labels", "class_names", "statistics", "shards", "checksum"});
  DatasetInfo info;
  info.count = root.integer("count", 1, kMaxImages);
  info.image = parse_image(root);
  info.normalization = parse_normalization(root, info.image.dtype);
  info.has_labels = root.boolean("has_labels");
  for (const Json& name : root.array("class_names")) info.class_names.push_back(root.text(name, "class_names"));
  info.statistics = parse_statistics(root, info.image.channels);
  info.shards = parse_shards(root, info.count, info.image);
  // Taken over the canonical text of what was understood: nothing that was read can differ from what was written.
  if (root.text("checksum") != base::sha256_hex(description_of(info).dump())) {
    throw DatasetError("{}: its checksum does not match; the file was changed or damaged", origin);
  }
  return info;
}

DatasetInfo read_dataset_info(const Path& folder) {
  const Path path = folder / kDescriptionFile;
  const std::string text = base::read_as<DatasetError>([&] {
    if (!base::is_there(path)) {
      throw DatasetError("{}: is not there; a dataset made by `ddpm data create`, or one .h5 file, is wanted",
                         path.string());
    }
    const base::InputFile file(path);
    if (file.size() > kMaxDescriptionBytes) {
      throw DatasetError("{}: {} bytes, at most {} are wanted", path.string(), file.size(), kMaxDescriptionBytes);
    }
    std::string read(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(read)));
    return read;
  });
  return parse_dataset_info(text, path.string());
}

void write_dataset_info(base::FileSystem& files, const Path& folder, const DatasetInfo& info) {
  base::write_atomically(files, folder / kDescriptionFile, to_json_text(info));
}

std::string sha256_of_prefix(const Path& path, uint64_t bytes) {
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  return base::read_as<DatasetError>([&] {
    const base::InputFile file(path);
    if (file.size() < bytes) {
      throw DatasetError("{}: {} bytes are wanted, it ends {} earlier", path.string(), bytes, bytes - file.size());
    }
    base::Sha256 digest;
    std::vector<std::byte> piece(std::min<uint64_t>(bytes, kPiece));
    for (uint64_t at = 0; at < bytes; at += piece.size()) {
      const auto part = std::span(piece).first(std::min<uint64_t>(bytes - at, kPiece));
      file.read(at, part);
      digest.update(part);
    }
    return digest.hex();
  });
}

}  // namespace ddpm::data
