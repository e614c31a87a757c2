#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/sha256.h"
#include "checkpoint/slice.h"

namespace ddpm::checkpoint {
namespace {

constexpr const char* kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
constexpr std::size_t kPieceBytes = std::size_t{4}
                                    << 20U;  // hashed, then written, while still in cache; whole elements

SafetensorsMetadata parse_metadata(const base::Json& json, const std::string& origin) {
  if (!json.is_object()) throw base::OutputError("{}: {} is not an object", origin, kMetadataKey);
  SafetensorsMetadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) throw base::OutputError("{}: {} '{}' is not a string", origin, kMetadataKey, key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

SafetensorsEntry parse_entry(const std::string& name, const base::Json& json, const std::string& origin) {
  const base::JsonFields fields(json, fmt::format("{}: tensor '{}'", origin, name), {"dtype", "shape", "data_offsets"});
  SafetensorsEntry entry{name, fields.dtype("dtype"), fields.integers("shape")};
  const std::vector<int64_t> offsets = fields.integers("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw base::OutputError("{}: 'data_offsets' are [{}], wanted [begin, end]", fields.place(),
                            fmt::join(offsets, ", "));
  }
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  const auto wanted = static_cast<uint64_t>(element_count(entry.shape, fields.place())) * base::size_of(entry.dtype);
  if (entry.size() != wanted) {
    throw base::OutputError("{}: has {} bytes, but its dtype and shape make {}", fields.place(), entry.size(), wanted);
  }
  return entry;
}

/// Sorts by place and requires that the entries tile [0, data_bytes).
void check_tiling(std::vector<SafetensorsEntry>& entries, uint64_t data_bytes, const std::string& origin) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t reached = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != reached) {
      throw base::OutputError("{}: tensor '{}' begins at byte {}, wanted {}: there is {}", origin, entry.name,
                              entry.begin, reached, entry.begin < reached ? "an overlap" : "a gap");
    }
    reached = entry.end;
  }
  if (reached != data_bytes) {
    throw base::OutputError("{}: has {} bytes of data, but its header describes {}", origin, data_bytes, reached);
  }
}

uint64_t from_little_endian(const std::array<std::byte, kLengthBytes>& bytes) {
  uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::array<std::byte, kLengthBytes> to_little_endian(uint64_t value) {
  std::array<std::byte, kLengthBytes> bytes{};
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

uint64_t byte_count(const SafetensorsTensor& tensor) {
  return static_cast<uint64_t>(element_count(tensor.shape, tensor.name)) * base::size_of(tensor.dtype);
}

/// In the order of their bytes in the file.
std::vector<const SafetensorsTensor*> in_file_order(std::span<const SafetensorsTensor> tensors) {
  std::vector<const SafetensorsTensor*> ordered;
  for (const SafetensorsTensor& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](const SafetensorsTensor* a, const SafetensorsTensor* b) {
    const std::size_t width_a = base::size_of(a->dtype);
    const std::size_t width_b = base::size_of(b->dtype);
    return width_a != width_b ? width_a > width_b : a->name < b->name;
  });
  return ordered;
}

/// The JSON header of `tensors` (already in file order), padded.
std::string header_text(std::span<const SafetensorsTensor* const> tensors, const SafetensorsMetadata& metadata) {
  base::OrderedJson header = base::OrderedJson::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t begin = 0;
  for (const SafetensorsTensor* tensor : tensors) {
    const uint64_t end = begin + byte_count(*tensor);
    header[tensor->name] = {
        {"dtype", base::safetensors_name(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  DDPM_CHECK(header.size() == tensors.size() + (metadata.empty() ? 0 : 1), "{} tensors with {} names", tensors.size(),
             header.size());
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

/// Counts and hashes what is written through it to a file.
class HashedOutput {
 public:
  explicit HashedOutput(base::WritableFile& file) : file_(file) {}

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
      hash_.update(piece);
      file_.write(piece);
      size_ += piece.size();
      bytes = bytes.subspan(piece.size());
    }
  }
  void write_header(std::string_view header) {
    write(to_little_endian(header.size()));
    write(std::as_bytes(std::span(header)));
  }
  FileDigest digest() { return {size_, hash_.hex()}; }

 private:
  base::WritableFile& file_;
  base::Sha256 hash_;
  uint64_t size_ = 0;
};

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto name_of = [this](std::size_t place) -> std::string_view { return entries[place].name; };
  const auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
  return found == by_name.end() || name_of(*found) != name ? nullptr : &entries[*found];
}

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& origin) {
  if (!json.starts_with('{')) throw base::OutputError("{}: not a safetensors file: no header of JSON", origin);
  const base::Json parsed = base::parse_json_file(json, origin, kMaxSafetensorsHeaderBytes);
  if (!parsed.is_object()) throw base::OutputError("{}: its header is not a JSON object", origin);
  SafetensorsHeader header;
  for (const auto& [name, value] : parsed.items()) {
    if (name == kMetadataKey) {
      header.metadata = parse_metadata(value, origin);
    } else {
      header.entries.push_back(parse_entry(name, value, origin));
    }
  }
  check_tiling(header.entries, data_bytes, origin);
  header.by_name.resize(header.entries.size());
  std::iota(header.by_name.begin(), header.by_name.end(), std::size_t{0});
  std::ranges::sort(header.by_name, {},
                    [&](std::size_t place) -> std::string_view { return header.entries[place].name; });
  return header;
}

SafetensorsFile::SafetensorsFile(const base::Path& path) : file_(path) {
  const uint64_t size = file_.size();
  std::array<std::byte, kLengthBytes> length_bytes{};
  if (size < kLengthBytes) throw base::OutputError("{}: not a safetensors file: {} bytes", path.string(), size);
  file_.read(0, length_bytes);
  const uint64_t length = from_little_endian(length_bytes);
  if (length > kMaxSafetensorsHeaderBytes || length > size - kLengthBytes) {
    throw base::OutputError("{}: damaged or no safetensors file: header of {} bytes in a file of {}", path.string(),
                            length, size);
  }
  std::string json(length, '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(json)));
  data_begin_ = kLengthBytes + length;
  header_ = parse_safetensors_header(json, size - data_begin_, path.string());
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::span<std::byte> out, uint64_t first) const {
  DDPM_CHECK(first <= entry.size() && out.size() <= entry.size() - first, "{} bytes at {} of tensor '{}' with {}",
             out.size(), first, entry.name, entry.size());
  file_.read(data_begin_ + entry.begin + first, out);
}

FileDigest write_safetensors(base::WritableFile& file, std::span<const SafetensorsTensor> tensors,
                             const SafetensorsMetadata& metadata) {
  const auto ordered = in_file_order(tensors);
  for (const SafetensorsTensor* tensor : ordered) {
    DDPM_CHECK(tensor->bytes.size() == byte_count(*tensor), "tensor '{}': {} bytes, its dtype and shape make {}",
               tensor->name, tensor->bytes.size(), byte_count(*tensor));
  }
  HashedOutput output(file);
  output.write_header(header_text(ordered, metadata));
  for (const SafetensorsTensor* tensor : ordered) output.write(tensor->bytes);
  return output.digest();
}

FileDigest write_safetensors(base::WritableFile& file, std::span<const SafetensorsTensor> tensors,
                             const SafetensorsSource& source, const SafetensorsMetadata& metadata) {
  const auto ordered = in_file_order(tensors);
  HashedOutput output(file);
  output.write_header(header_text(ordered, metadata));
  std::vector<std::byte> piece(kPieceBytes);
  for (const SafetensorsTensor* tensor : ordered) {
    const uint64_t size = byte_count(*tensor);
    for (uint64_t first = 0; first < size; first += kPieceBytes) {
      const auto out = std::span(piece).first(std::min<uint64_t>(kPieceBytes, size - first));
      source(static_cast<std::size_t>(tensor - tensors.data()), first, out);
      output.write(out);
    }
  }
  return output.digest();
}

}  // namespace ddpm::checkpoint
