#include "h5/plain_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"

namespace ddpm::h5 {

namespace {

/// Bytes between two lines that are read along rather than left out: a second read would cost more.
constexpr uint64_t kLineGapBytes = 16 << 10;
/// The most bytes that are read together.
constexpr uint64_t kTogetherBytes = 1 << 20;

/// Bytes from the first line to the end of the last.
uint64_t line_bytes(std::span<const Line> group) { return group.back().from + group.back().bytes - group.front().from; }

std::vector<std::span<const Line>> near_lines(std::span<const Line> lines) {
  std::vector<std::span<const Line>> groups;
  for (std::size_t begin = 0; begin < lines.size();) {
    std::size_t end = begin + 1;
    while (end < lines.size() && lines[end].from - (lines[end - 1].from + lines[end - 1].bytes) <= kLineGapBytes &&
           lines[end].from + lines[end].bytes - lines[begin].from <= kTogetherBytes) {
      ++end;
    }
    groups.push_back(lines.subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

}  // namespace

void turn_bytes(std::span<std::byte> values, std::size_t element_bytes) {
  for (std::size_t i = 0; i < values.size(); i += element_bytes) {
    std::ranges::reverse(values.subspan(i, element_bytes));
  }
}

PlainRows::PlainRows(std::shared_ptr<LazyFile> file, std::string label, const PlainLayout& layout,
                     const Digests* digests)
    : file_(std::move(file)), label_(std::move(label)), layout_(layout), digests_(digests) {}

void PlainRows::read(uint64_t begin, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  read_locked(begin, out);
}

void PlainRows::read_lines(std::span<const Line> lines, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  const std::vector<std::span<const Line>> groups = near_lines(lines);
  if (groups.size() > 1) announce(groups);
  for (const std::span<const Line> group : groups) {
    const Line& first = group.front();
    if (group.size() == 1) {
      read_locked(first.from, out.subspan(first.to, first.bytes));
      continue;
    }
    near_.resize(line_bytes(group));
    read_locked(first.from, near_);
    for (const Line& line : group) std::memcpy(&out[line.to], &near_[line.from - first.from], line.bytes);
  }
}

void PlainRows::announce(std::span<const std::span<const Line>> groups) {
  base::read_as<base::DatasetError>([&] {
    const base::InputFile& file = file_->get();
    for (const std::span<const Line> group : groups) {
      file.announce(layout_.values.offset + group.front().from, line_bytes(group));
    }
  });
}

void PlainRows::read_locked(uint64_t begin, std::span<std::byte> out) {
  base::read_as<base::DatasetError>([&] {
    const uint64_t offset = layout_.values.offset + begin;
    if (digests_ == nullptr) {
      file_->get().read(offset, out);
    } else {
      read_compared(offset, out);
    }
  });
  if (layout_.turned) turn_bytes(out, layout_.element_bytes);
}

void PlainRows::read_compared(uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) return;
  // The first and the last block may be wanted in part; those between are read where they are wanted.
  const Extent first = digests_->whole_blocks({.offset = offset, .bytes = 1}, label_);
  const Extent all = digests_->whole_blocks({.offset = offset, .bytes = out.size()}, label_);
  const Extent last = digests_->whole_blocks({.offset = all.offset + all.bytes - 1, .bytes = 1}, label_);
  const uint64_t end = offset + out.size();
  const uint64_t begin_whole = first.offset == offset ? offset : std::min(end, first.offset + first.bytes);
  const uint64_t end_whole = std::max(begin_whole, end == last.offset + last.bytes ? end : last.offset);
  const auto part = [&](uint64_t from, uint64_t to) { return out.subspan(from - offset, to - from); };
  const auto read_part = [&](const Extent& block, uint64_t from, uint64_t to) {
    if (from >= to) return;
    block_.resize(block.bytes);
    file_->get().read(block.offset, block_);
    digests_->compare(block.offset, block_, label_);
    std::ranges::copy(std::span(block_).subspan(from - block.offset, to - from), part(from, to).begin());
  };
  read_part(first, offset, begin_whole);
  if (begin_whole < end_whole) {
    file_->get().read(begin_whole, part(begin_whole, end_whole));
    digests_->compare(begin_whole, part(begin_whole, end_whole), label_);
  }
  read_part(last, end_whole, end);
}

}  // namespace ddpm::h5
