#include "h5/chunk_tree.h"

#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace ddpm::h5 {

namespace {

constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 20U;
constexpr std::size_t kMostHeaderParts = 256;
constexpr std::size_t kMostAxes = 32;
constexpr uint64_t kPlacesEnd = uint64_t{1} << 62U;
constexpr uint64_t kMessageOfLayout = 0x08;
constexpr uint64_t kMessageOfContinuation = 0x10;

/// Numbers in the order of their bytes, the least first. Beyond the end they are 0, and ok() is false.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  std::span<const std::byte> take(std::size_t count) {
    ok_ = ok_ && count <= left();
    if (!ok_) return {};
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  uint64_t number(std::size_t bytes) {
    uint64_t value = 0;
    std::size_t shift = 0;
    for (const std::byte byte : take(bytes)) {
      value |= std::to_integer<uint64_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }
  bool takes(std::string_view sign) {
    const auto bytes = take(sign.size());
    return ok_ && std::memcmp(bytes.data(), sign.data(), sign.size()) == 0;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

/// As many of the bytes as the file has.
std::vector<std::byte> bytes_at(const base::InputFile& file, uint64_t offset, std::size_t count) {
  std::vector<std::byte> bytes(offset < kPlacesEnd ? count : 0);
  bytes.resize(file.read_up_to(offset, bytes));
  return bytes;
}

/// Messages of an object header that follow each other in the file.
struct HeaderPart {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// How the messages of a header are written.
struct HeaderForm {
  bool old = false;      ///< version 1
  bool ordered = false;  ///< version 2: each message has the number of its creation
};

/// The first part of the header, and its form.
std::optional<HeaderPart> first_part(const base::InputFile& file, uint64_t header, HeaderForm& form) {
  const std::vector<std::byte> bytes = bytes_at(file, header, 64);
  if (Cursor old(bytes); old.number(1) == 1) {
    form.old = true;
    old.take(7);  // reserved, number of messages, references
    const uint64_t size = old.number(4);
    if (!old.ok()) return std::nullopt;
    return HeaderPart{.offset = header + 16, .bytes = size};
  }
  Cursor head(bytes);
  if (!head.takes("OHDR") || head.number(1) != 2) return std::nullopt;
  const uint64_t flags = head.number(1);
  form.ordered = (flags & 4U) != 0;
  if ((flags & 0x20U) != 0) head.take(16);  // times
  if ((flags & 0x10U) != 0) head.take(4);   // limits of attributes
  const uint64_t size = head.number(std::size_t{1} << (flags & 3U));
  if (!head.ok()) return std::nullopt;
  return HeaderPart{.offset = header + bytes.size() - head.left(), .bytes = size};
}

/// The address of the B-tree in a message of the array's layout.
std::optional<uint64_t> tree_of(Cursor layout, std::size_t axes) {
  constexpr uint64_t kChunked = 2;
  if (layout.number(1) != 3 || layout.number(1) != kChunked || layout.number(1) != axes + 1) return std::nullopt;
  const uint64_t address = layout.number(8);
  return layout.ok() ? std::optional(address) : std::nullopt;
}

/// The address of the B-tree that lists the chunks.
std::optional<uint64_t> find_tree(const base::InputFile& file, uint64_t header, std::size_t axes) {
  HeaderForm form;
  const auto first = first_part(file, header, form);
  if (!first) return std::nullopt;
  std::vector<HeaderPart> parts = {*first};
  for (std::size_t p = 0; p < parts.size() && p < kMostHeaderParts; ++p) {
    if (parts[p].bytes > kMostHeaderBytes) return std::nullopt;
    const auto bytes = bytes_at(file, parts[p].offset, parts[p].bytes);
    Cursor messages(bytes);
    const std::size_t head = form.old ? 8 : form.ordered ? 6 : 4;
    while (messages.ok() && messages.left() >= head) {
      const uint64_t type = messages.number(form.old ? 2 : 1);
      const uint64_t size = messages.number(2);
      messages.take(head - (form.old ? 4 : 3));  // flags and what follows them
      Cursor message(messages.take(size));
      if (!messages.ok()) return std::nullopt;
      if (type == kMessageOfLayout) return tree_of(message, axes);
      if (type != kMessageOfContinuation) continue;
      HeaderPart next{.offset = message.number(8), .bytes = message.number(8)};
      if (!message.ok() || (!form.old && next.bytes < 8)) return std::nullopt;
      if (!form.old) next = {.offset = next.offset + 4, .bytes = next.bytes - 8};  // "OCHK" and a checksum
      parts.push_back(next);
    }
  }
  return std::nullopt;
}

/// A node that is to be read.
struct Node {
  uint64_t offset = 0;
  std::optional<uint64_t> level = std::nullopt;  ///< none: the root, whose level it says itself
};

}  // namespace

bool list_chunks(const base::InputFile& file, uint64_t header, std::size_t axes, uint64_t most,
                 const std::function<void(std::span<const uint64_t> begin, const ChunkPlace& place)>& each) {
  constexpr std::size_t kHeadBytes = 24;
  if (axes > kMostAxes) return false;
  const std::optional<uint64_t> root = find_tree(file, header, axes);
  if (!root) return false;
  const std::size_t entry_bytes = 8 + 8 * (axes + 1) + 8;
  std::vector<Node> nodes = {{.offset = *root}};
  uint64_t listed = 0;
  for (uint64_t visited = 0; !nodes.empty(); ++visited) {
    const Node node = nodes.back();
    nodes.pop_back();
    const auto head_bytes = bytes_at(file, node.offset, kHeadBytes);
    Cursor head(head_bytes);
    if (!head.takes("TREE") || head.number(1) != 1) return false;
    const uint64_t level = head.number(1);
    const uint64_t used = head.number(2);
    if (!head.ok() || level != node.level.value_or(level)) return false;
    // Each node leads to a chunk, so that there are hardly more nodes than chunks.
    if (visited + nodes.size() > 2 * most + kMostAxes) return false;
    const auto entries = bytes_at(file, node.offset + kHeadBytes, used * entry_bytes);
    Cursor entry(entries);
    for (uint64_t i = 0; i < used; ++i) {
      ChunkPlace place{.bytes = entry.number(4), .skipped = static_cast<uint32_t>(entry.number(4))};
      std::array<uint64_t, kMostAxes + 1> begin{};
      for (std::size_t axis = 0; axis <= axes; ++axis) begin[axis] = entry.number(8);
      place.offset = entry.number(8);
      if (!entry.ok() || begin[axes] != 0) return false;
      if (level > 0) {
        nodes.push_back({.offset = place.offset, .level = level - 1});
      } else if (++listed > most) {
        return false;
      } else {
        each(std::span(begin).first(axes), place);
      }
    }
  }
  return true;
}

}  // namespace ddpm::h5
