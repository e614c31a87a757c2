#include "data/shard_result.h"

#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace ddpm::data {

using base::DatasetError;

void expect_alignment(int64_t bytes) {
  if (bytes == 0 || (bytes >= kLeastAlignment && bytes <= kMostAlignment && bytes % kLeastAlignment == 0)) return;
  throw base::ConfigError("--align {}: wanted a multiple of {} up to {}, such as a stripe of the file system", bytes,
                          kLeastAlignment, kMostAlignment);
}

DatasetInfo assemble(const std::string& name, std::vector<Field> fields, std::vector<std::string> class_names,
                     std::span<const ShardResult> shards, int64_t alignment) {
  DatasetInfo info;
  info.alignment = alignment;
  info.fields = std::move(fields);
  info.class_names = std::move(class_names);
  Statistics all(info.image());
  for (const ShardResult& shard : shards) {
    all.merge(shard.statistics);
    info.shards.push_back(shard.info);
    info.shards.back().file = shard_file_name(std::ssize(info.shards) - 1, std::ssize(shards));
    info.shards.back().first = info.count;
    info.count += shard.info.count;
  }
  if (info.count == 0) throw DatasetError("{}: no image was found, a dataset holds at least one", name);
  if (all.empty()) throw DatasetError("{}: {}", name, kNothingValid);
  info.statistics = all.result();
  return info;
}

std::string to_json_text(const ShardResult& shard) {
  base::OrderedJson json;
  json["count"] = shard.info.count;
  json["size"] = shard.info.size;
  json["sha256"] = shard.info.sha256;
  json["header_size"] = shard.info.header_size;
  json["header_sha256"] = shard.info.header_sha256;
  json["statistics"] = shard.statistics.to_json();
  return json.dump() + "\n";
}

ShardResult parse_shard_result(std::string_view text, const ImageFormat& format, const std::string& origin) {
  try {
    const base::Json json = base::parse_json(text);
    ShardResult result{.info = {}, .statistics = Statistics::from_json(format, json.at("statistics"))};
    json.at("count").get_to(result.info.count);
    json.at("size").get_to(result.info.size);
    json.at("sha256").get_to(result.info.sha256);
    json.at("header_size").get_to(result.info.header_size);
    json.at("header_sha256").get_to(result.info.header_sha256);
    return result;
  } catch (const std::exception& error) {
    throw DatasetError("{}: no description of a finished shard: {}", origin, error.what());
  }
}

}  // namespace ddpm::data
