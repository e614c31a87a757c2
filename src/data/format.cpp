#include "data/format.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/sha256.h"
#include "data/field_json.h"

namespace ddpm::data {

namespace {

using base::DatasetError;
using base::Json;
using base::JsonFields;
using base::OrderedJson;

// Limits that no real set reaches; they keep every product below far from overflow.
constexpr int64_t kMaxImages = int64_t{1} << 40;
constexpr uint64_t kMaxDescriptionBytes = 256U << 20U;

Json parse_or_throw(std::string_view text, const std::string& origin) {
  try {
    return base::parse_json(text, {.max_bytes = kMaxDescriptionBytes, .max_depth = 8});
  } catch (const std::invalid_argument& error) {
    throw DatasetError("{}: {}", origin, error.what());
  }
}

/// Everything but the checksum, which is taken over this text, as version `version` of the format has it.
constexpr const char* kAlignment = "alignment";  // only where one was asked for

OrderedJson description_of(const DatasetInfo& info, int64_t version = kFormatVersion) {
  OrderedJson json;
  json["format"] = "ddpm-dataset";
  json["version"] = version;
  json["count"] = info.count;
  put_image(json, info.image(), info.normalization());
  json["has_labels"] = info.has_labels();
  json["class_names"] = info.class_names;
  if (version > 1) json["fields"] = to_json(info.fields);
  OrderedJson statistics = OrderedJson::array();
  for (const ChannelStatistics& s : info.statistics) {
    statistics.push_back({{"mean", s.mean}, {"std", s.std}, {"min", s.min}, {"max", s.max}});
  }
  json["statistics"] = std::move(statistics);
  if (info.alignment > 0) json[kAlignment] = info.alignment;
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

std::vector<ChannelStatistics> parse_statistics(const JsonFields& root, int64_t channels) {
  std::vector<ChannelStatistics> all;
  for (const Json& item : root.array("statistics")) {
    const JsonFields s(item, root.place() + ": statistics", {"mean", "std", "min", "max"});
    all.push_back({.mean = s.number("mean"), .std = s.number("std"), .min = s.number("min"), .max = s.number("max")});
  }
  if (std::ssize(all) != channels) {
    throw DatasetError("{}: statistics of {} channels, {} are wanted", root.place(), all.size(), channels);
  }
  return all;
}

/// Bytes of one image's values in all fields that are read in blocks.
std::size_t block_bytes(const std::vector<Field>& fields) {
  std::size_t bytes = 0;
  for (const Field& field : fields) bytes += field.is_read_in_blocks() ? field.bytes() : 0;
  return bytes;
}

/// Images alone fill the shard to its end; several arrays may have gaps between them.
bool fills(const ShardInfo& shard, const std::vector<Field>& fields) {
  uint64_t values = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(shard.count), block_bytes(fields), &values)) return false;
  if (shard.header_size > shard.size || shard.size - shard.header_size < values) return false;
  const bool only_images = std::ranges::count_if(fields, &Field::is_read_in_blocks) == 1;
  return !only_images || shard.size - shard.header_size == values;
}

ShardInfo parse_shard(const Json& json, const std::string& where, const std::vector<Field>& fields) {
  const JsonFields object(json, where, {"file", "first", "count", "size", "sha256", "header_size", "header_sha256"});
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
  if (!fills(shard, fields)) {
    throw DatasetError("{}: {} images of {} bytes after a header of {} do not make {} bytes", where, shard.count,
                       block_bytes(fields), shard.header_size, shard.size);
  }
  return shard;
}

std::vector<ShardInfo> parse_shards(const JsonFields& root, int64_t count, const std::vector<Field>& fields) {
  std::vector<ShardInfo> shards;
  std::set<std::string> names;
  int64_t next = 0;
  for (const Json& item : root.array("shards")) {
    const std::string where = fmt::format("{}: shard {}", root.place(), shards.size());
    shards.push_back(parse_shard(item, where, fields));
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
  if (next != count) throw DatasetError("{}: \"count\" is {}, the shards hold {}", root.place(), count, next);
  return shards;
}

/// The fields, which version 1 had no list of; in later ones the list and the older keys must agree.
std::vector<Field> parse_either_fields(const JsonFields& root, bool without_list) {
  const ImageFormat image = parse_image(root);
  const Normalization normalization = parse_normalization(root, image.dtype);
  const bool has_labels = root.boolean("has_labels");
  if (without_list) return image_fields(image, normalization, has_labels);
  DatasetInfo listed;
  listed.fields = parse_field_list(root.array("fields"), root.place());
  if (listed.image() != image || listed.normalization() != normalization || listed.has_labels() != has_labels) {
    throw DatasetError(
        "{}: \"fields\" says another thing of images or labels than \"height\", \"width\", \"channels\", \"dtype\", "
        "\"normalization\" and \"has_labels\" do",
        root.place());
  }
  return std::move(listed.fields);
}

/// The description of a set in `json`. Throws OutputError (base/json_fields.h) or DatasetError.
DatasetInfo info_of(const Json& json, const std::string& origin) {
  // The version first: a newer one may have other keys.
  if (!json.is_object() || !json.contains("format") || json["format"] != "ddpm-dataset" || !json.contains("version")) {
    throw DatasetError("{}: this is not the description of a dataset", origin);
  }
  const Json& version = json["version"];
  if (version != 1 && version != kFormatVersion) {
    throw DatasetError("{}: format version {}, this program reads versions 1 to {}", origin, base::excerpt(version),
                       kFormatVersion);
  }
  std::vector<std::string_view> keys = {"format",     "version", "count",         "height",     "width",
                                        "channels",   "dtype",   "normalization", "has_labels", "class_names",
                                        "statistics", "shards",  "checksum"};
  if (version != 1) keys.emplace_back("fields");
  const JsonFields root(json, origin, keys, {"depth", kAlignment});  // only volumes have a depth
  DatasetInfo info;
  info.count = root.integer("count", 1, kMaxImages);
  info.fields = parse_either_fields(root, version == 1);
  info.class_names = base::to_texts(root.array("class_names"), origin + ": 'class_names'");
  info.statistics = parse_statistics(root, info.image().channels);
  if (root.has(kAlignment)) info.alignment = root.integer(kAlignment, kLeastAlignment, kMostAlignment);
  info.shards = parse_shards(root, info.count, info.fields);
  // Taken over the canonical text of what was understood: nothing that was read can differ from what was written.
  if (root.text("checksum") != base::sha256_hex(description_of(info, version.get<int64_t>()).dump())) {
    throw DatasetError("{}: its checksum does not match; the file was changed or damaged", origin);
  }
  return info;
}

}  // namespace

std::size_t DatasetInfo::find(FieldRole role) const {
  return static_cast<std::size_t>(std::ranges::find(fields, role, &Field::role) - fields.begin());
}

bool DatasetInfo::has_images_of_one_map() const {
  const bool plain = std::ranges::all_of(
      fields, [](const Field& field) { return field.role == FieldRole::image || field.role == FieldRole::labels; });
  const Transform common = normalization();
  return plain && image().depth == 0 &&
         std::ranges::all_of(image_field().variables, [&](const Variable& v) { return v.transform == common; });
}

ImageFormat DatasetInfo::image() const { return image_field().format(); }

std::string checksums_path(const Field& field) {
  return field.role == FieldRole::image ? "/checksums" : field.path + "_checksums";
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
  return base::read_as<DatasetError>([&] { return info_of(json, origin); });
}

DatasetInfo read_dataset_info(const Path& folder) {
  const Path path = folder / kDescriptionFile;
  const std::string text = base::read_as<DatasetError>([&] {
    if (base::kind_of(folder) == base::FileKind::regular) {
      throw DatasetError("{}: is a file; the folder of a dataset made by `ddpm data create` is wanted",
                         folder.string());
    }
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
