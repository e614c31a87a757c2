#include "checkpoint/manifest.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/sha256.h"

namespace ddpm::checkpoint {
namespace {

constexpr std::size_t kHexDigits = 64;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr int64_t kMaxWorldSize = std::numeric_limits<int>::max();
/// No slice has fewer bytes for each value than this, but for tensors of more axes than there are.
constexpr uint64_t kBytesPerValue = 4;
constexpr const char* kFilesKey = "files";
constexpr const char* kTensorsKey = "tensors";
constexpr std::string_view kDigestOpen = "\"sha256\": \"";
constexpr std::string_view kDigestClose = "\"\n}\n";

std::string closing(std::string_view body) {
  return fmt::format("{}{}{}", kDigestOpen, base::sha256_hex(body), kDigestClose);
}

base::OrderedJson to_json(layout::Range range) { return base::OrderedJson::array({range.begin, range.end}); }

base::OrderedJson to_json(const ManifestTensor& tensor) {
  base::OrderedJson slices = base::OrderedJson::array();
  for (const ManifestSlice& slice : tensor.slices) {
    base::OrderedJson box = base::OrderedJson::array();
    for (const layout::Range range : slice.box) box.push_back(to_json(range));
    slices.push_back({{"file", slice.file}, {"entry", slice.entry}, {"box", box}, {"flat", to_json(slice.flat)}});
  }
  return {{"name", tensor.name},
          {"dtype", base::safetensors_name(tensor.dtype)},
          {"shape", tensor.shape},
          {"slices", slices}};
}

base::OrderedJson to_json(const ManifestFile& file) {
  return {{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}};
}

/// The fields of an object of the manifest. Its checksum matched, so that other keys are no damage.
base::JsonFields fields_of(const base::Json& json, const std::string& place,
                           const std::vector<std::string_view>& keys) {
  base::JsonFields fields(json, place, keys, base::JsonFields::Others::ignored);
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(keys, std::string_view(key)) != keys.end()) continue;
    throw NewerFormatError("{}: unknown key '{}': a newer ddpm wrote it", place, key);
  }
  return fields;
}

using ListSinks = std::map<std::string, base::JsonItemSink, std::less<>>;

/// The text as JSON, without what went to the sinks.
base::Json parse_lists(std::string_view text, const std::string& origin, const ListSinks& sinks) {
  try {
    return base::parse_json_lists(text, manifest_limits(text.size()), sinks);
  } catch (const std::invalid_argument& error) {
    throw base::OutputError("{}: not valid JSON: {}", origin, error.what());
  }
}

/// Comes before all other checks: another format may have other keys.
void expect_known_format(const base::Json& json, const std::string& origin) {
  const base::JsonFields fields(json, origin, {"format"}, base::JsonFields::Others::ignored);
  const int64_t format = fields.integer("format");
  if (format == kManifestFormat) return;
  throw NewerFormatError("{}: format {}, this program reads {}: a newer ddpm wrote it", origin, format,
                         kManifestFormat);
}

/// A list with one item a line, so that people can read and compare manifests.
template <typename Item>
void append_list(std::string& text, std::string_view key, const std::vector<Item>& items) {
  text += fmt::format("\"{}\": [", key);
  const char* separator = "\n";
  for (const Item& item : items) {
    text += separator;
    text += to_json(item).dump();
    separator = ",\n";
  }
  text += "\n],\n";
}

layout::Range parse_range(const base::Json& json, const std::string& place) {
  if (!json.is_array() || json.size() != 2) throw base::OutputError("{}: a range is not [begin, end]", place);
  return {base::to_integer(json[0], place), base::to_integer(json[1], place)};
}

bool is_plain_name(const std::string& name) {
  const auto plain = [](char c) { return c > ' ' && c < '\x7f' && c != '/' && c != '\\'; };
  return !name.empty() && name.size() <= 255 && name.front() != '.' && name != kManifestName &&
         std::all_of(name.begin(), name.end(), plain);
}

/// Names of tensors and entries are shown and compared, never used as paths: "model/conv_in.weight".
void check_name(const std::string& name, const std::string& place) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c < '\x7f'; });
  if (!name.empty() && name.size() <= kMaxNameBytes && printable) return;
  throw base::OutputError("{}: the name {} is not 1 to {} printable characters", place, base::excerpt(name),
                          kMaxNameBytes);
}

ManifestFile parse_file(const base::Json& json, const std::string& place) {
  const base::JsonFields fields = fields_of(json, place, {"name", "size", "sha256"});
  ManifestFile file{fields.text("name"), static_cast<uint64_t>(fields.integer("size")), fields.text("sha256")};
  if (!is_plain_name(file.name)) {
    throw base::OutputError("{}: file name {} is not a plain name inside the folder", place, base::excerpt(file.name));
  }
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (file.sha256.size() != kHexDigits || !std::all_of(file.sha256.begin(), file.sha256.end(), is_hex)) {
    throw base::OutputError("{}: 'sha256' is '{}', wanted 64 hexadecimal digits", place, file.sha256);
  }
  return file;
}

ManifestSlice parse_slice(const base::Json& json, const std::string& place) {
  const base::JsonFields fields = fields_of(json, place, {"file", "entry", "box", "flat"});
  ManifestSlice slice{fields.text("file"), fields.text("entry"), {}, parse_range(fields.array("flat"), place)};
  for (const base::Json& range : fields.array("box")) slice.box.push_back(parse_range(range, place));
  check_name(slice.entry, place);
  if (slice.flat.empty()) throw base::OutputError("{}: a slice is empty", place);
  return slice;
}

ManifestTensor parse_tensor(const base::Json& json, const std::string& place) {
  const base::JsonFields fields = fields_of(json, place, {"name", "dtype", "shape", "slices"});
  ManifestTensor tensor{fields.text("name"), fields.dtype("dtype"), fields.integers("shape"), {}};
  check_name(tensor.name, place);
  element_count(tensor.shape, place);
  for (const base::Json& slice : fields.array("slices")) tensor.slices.push_back(parse_slice(slice, place));
  return tensor;
}

void check_tensors(const Manifest& manifest, const std::string& origin) {
  std::set<std::string_view> files;
  for (const ManifestFile& file : manifest.files) {
    if (!files.insert(file.name).second) throw base::OutputError("{}: file '{}' is listed twice", origin, file.name);
  }
  std::set<std::pair<std::string_view, std::string_view>> entries;
  std::string_view previous;
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (tensor.name.empty() || (!previous.empty() && tensor.name <= previous)) {
      throw base::OutputError("{}: tensor '{}' is listed twice or out of order", origin, tensor.name);
    }
    previous = tensor.name;
    std::vector<TensorSlice> slices;
    for (std::size_t i = 0; i < tensor.slices.size(); ++i) {
      const ManifestSlice& slice = tensor.slices[i];
      if (!files.contains(slice.file)) {
        throw base::OutputError("{}: tensor '{}' lies in '{}', which is not a listed file", origin, tensor.name,
                                slice.file);
      }
      if (!entries.emplace(slice.file, slice.entry).second) {
        throw base::OutputError("{}: '{}' of '{}' is used twice", origin, slice.entry, slice.file);
      }
      slices.push_back(tensor.slice(i));
    }
    check_exact_cover(tensor.name, tensor.shape, slices);
  }
}

void check_state(const base::Json& state, const std::string& origin) {
  for (const auto& [key, value] : state.items()) {
    if (value.is_structured()) throw base::OutputError("{}: state '{}' is not a scalar", origin, key);
  }
}

void check_checksum(std::string_view text, const std::string& origin) {
  const std::size_t closing_size = kDigestOpen.size() + kHexDigits + kDigestClose.size();
  if (text.size() < closing_size) throw base::OutputError("{}: cut short: {} bytes", origin, text.size());
  const std::string_view body = text.substr(0, text.size() - closing_size);
  if (text.substr(body.size()) != closing(body)) {
    throw base::OutputError("{}: damaged: its text does not end with the checksum of what stands before", origin);
  }
}

}  // namespace

base::JsonLimits manifest_limits(uint64_t bytes) {
  base::JsonLimits limits{.max_bytes = kMaxManifestBytes};
  limits.max_values = std::max<std::size_t>(limits.max_values, bytes / kBytesPerValue);
  return limits;
}

TensorSlice ManifestTensor::slice(std::size_t i) const {
  return {name, dtype, shape, slices.at(i).box, slices.at(i).flat};
}

const ManifestTensor* Manifest::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                      [](const ManifestTensor& tensor, std::string_view n) { return tensor.name < n; });
  return found == tensors.end() || found->name != name ? nullptr : &*found;
}

std::string to_text(const Manifest& manifest) {
  std::string text = fmt::format("{{\n\"format\": {},\n\"step\": {},\n\"world\": {},\n", kManifestFormat, manifest.step,
                                 manifest.world_size);
  text += fmt::format("\"config_hash\": {},\n", base::Json(manifest.config_hash).dump());
  text += fmt::format("\"dataset_hash\": {},\n", base::Json(manifest.dataset_hash).dump());
  text += fmt::format("\"state\": {},\n", manifest.state.dump());
  append_list(text, kFilesKey, manifest.files);
  append_list(text, kTensorsKey, manifest.tensors);
  return text + closing(text);
}

Manifest parse_contribution(std::string_view text, const std::string& origin) {
  check_checksum(text, origin);
  // Items are taken as they are read: as JSON, millions of slices take many times the memory of the text.
  Manifest manifest;
  const auto add_file = [&](const base::Json& read, const base::Json& file) {
    if (read.contains("format")) expect_known_format(read, origin);
    manifest.files.push_back(parse_file(file, fmt::format("{}: files[{}]", origin, manifest.files.size())));
  };
  const auto add_tensor = [&](const base::Json& read, const base::Json& tensor) {
    if (read.contains("format")) expect_known_format(read, origin);
    manifest.tensors.push_back(parse_tensor(tensor, fmt::format("{}: tensors[{}]", origin, manifest.tensors.size())));
  };
  const base::Json json = parse_lists(text, origin, {{kFilesKey, add_file}, {kTensorsKey, add_tensor}});
  expect_known_format(json, origin);
  const base::JsonFields fields =
      fields_of(json, origin,
                {"format", "step", "world", "config_hash", "dataset_hash", "state", kFilesKey, kTensorsKey, "sha256"});
  // What is left there is not an object.
  for (const base::Json& file : fields.array(kFilesKey)) add_file(json, file);
  for (const base::Json& tensor : fields.array(kTensorsKey)) add_tensor(json, tensor);
  manifest.step = fields.integer("step");
  manifest.world_size = fields.integer("world");
  if (manifest.world_size < 1 || manifest.world_size > kMaxWorldSize) {
    throw base::OutputError("{}: 'world' is {}, wanted 1 to {}", origin, manifest.world_size, kMaxWorldSize);
  }
  manifest.config_hash = fields.text("config_hash");
  manifest.dataset_hash = fields.text("dataset_hash");
  manifest.state = fields.object("state");
  check_state(manifest.state, origin);
  return manifest;
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  Manifest manifest = parse_contribution(text, origin);
  check_tensors(manifest, origin);
  return manifest;
}

}  // namespace ddpm::checkpoint
