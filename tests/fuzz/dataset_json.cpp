// data::parse_dataset_info, with a fitting checksum put into what comes: what a careful forger would write. What is
// accepted reads back the same, and its sizes add up.
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "data/format.h"
#include "fuzz/fuzz.h"

namespace {

/// The text with the checksum of a description in canonical form; as it is when it is not a JSON object.
std::string with_checksum(std::string_view text) {
  try {
    if (!ddpm::base::parse_json(text, {.max_bytes = 1U << 16U, .max_depth = 16}).is_object()) return std::string(text);
  } catch (const std::invalid_argument&) {
    return std::string(text);
  }
  auto json = ddpm::base::OrderedJson::parse(text);
  json.erase("checksum");
  json["checksum"] = ddpm::base::sha256_hex(json.dump());
  return json.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto info = ddpm::data::parse_dataset_info(with_checksum(ddpm::fuzz::text_of(data, size)), "dataset.json");
    int64_t count = 0;
    for (const auto& shard : info.shards) {
      ddpm::fuzz::require(shard.first == count, "shards follow each other");
      ddpm::fuzz::require(shard.file.find('/') == std::string::npos && shard.file.front() != '.', "names are plain");
      ddpm::fuzz::require(shard.size - shard.header_size == static_cast<uint64_t>(shard.count) * info.image().bytes(),
                          "sizes add up");
      count += shard.count;
    }
    ddpm::fuzz::require(count == info.count, "counts add up");
    ddpm::fuzz::require(ddpm::data::parse_dataset_info(to_json_text(info), "again") == info, "reads back the same");
  } catch (const ddpm::base::DatasetError&) {
  }
  return 0;
}
