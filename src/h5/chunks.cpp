#include "h5/chunks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/jobs.h"
#include "h5/plain_rows.h"

namespace ddpm::h5 {

namespace {

constexpr std::size_t kKeptBytes = std::size_t{64} << 20U;
/// Bytes of chunks, packed and unpacked, that are fetched together for one thread: many small chunks, but not so many
/// bytes that they leave the processor's caches before they are unpacked.
constexpr std::size_t kGroupBytes = std::size_t{2} << 20U;
/// The most bytes that are in memory at once beside chunks that are kept, unless a single chunk has more.
constexpr std::size_t kMostGroupBytes = std::size_t{128} << 20U;
/// Bytes between two chunks that are read along rather than left out: a second read would cost more. No more than the
/// chunk before it has, and a page.
constexpr uint64_t kGapBytes = uint64_t{64} << 10U;
constexpr uint64_t kPageBytes = 4096;
/// Values whose unpacking is worth a thread: starting one takes as long as unpacking 10 kB of gzip.
constexpr std::size_t kThreadBytes = std::size_t{256} << 10U;

std::size_t bytes_of(const std::vector<uint64_t>& extents, std::size_t element_bytes) {
  std::size_t bytes = element_bytes;
  for (const uint64_t extent : extents) bytes *= extent;
  return bytes;
}

/// Chunks of a band of rows, as many as are kept.
std::size_t most_kept(const ChunkLayout& layout, std::size_t chunk_bytes) {
  std::size_t band = 1;
  for (std::size_t axis = 1; axis < layout.shape.size(); ++axis) {
    band *= chunks_along(layout.shape[axis], layout.chunk[axis]);
  }
  return std::clamp<std::size_t>(kKeptBytes / chunk_bytes, 1, band);
}

}  // namespace

ChunkReader::ChunkReader(std::shared_ptr<LazyFile> file, std::string label, ChunkLayout layout, const Digests* digests,
                         std::size_t threads)
    : file_(std::move(file)),
      label_(std::move(label)),
      layout_(std::move(layout)),
      chunk_bytes_(bytes_of(layout_.chunk, layout_.element_bytes)),
      digests_(digests),
      kept_(most_kept(layout_, chunk_bytes_)) {
  for (std::size_t i = 0; i < threads; ++i) tools_.workers.emplace_back(layout_.filters, chunk_bytes_);
}

std::vector<Extent> ChunkReader::extents() const {
  std::vector<Extent> extents;
  extents.reserve(layout_.places.size());
  for (const ChunkPlace& place : layout_.places) extents.push_back({.offset = place.offset, .bytes = place.bytes});
  return extents;
}

void ChunkReader::read_rows(uint64_t first, uint64_t n, std::span<std::byte> out) {
  BoxCopy rows{.box = {.begin = std::vector<uint64_t>(layout_.shape.size(), 0), .extent = layout_.shape},
               .at = std::vector<uint64_t>(layout_.shape.size(), 0)};
  rows.box.begin[0] = first;
  rows.box.extent[0] = n;
  read_box(rows, rows.box.extent, out);
}

void ChunkReader::read_box(const BoxCopy& copy, std::span<const uint64_t> target, std::span<std::byte> out) {
  const std::size_t axes = layout_.shape.size();
  std::vector<uint64_t> first(axes);  // along each axis, the number of the first chunk with some of the box
  std::vector<uint64_t> count(axes);  // along each axis, how many chunks have some of it
  uint64_t chunks = 1;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const uint64_t begin = copy.box.begin[axis];
    first[axis] = begin / layout_.chunk[axis];
    count[axis] = chunks_along(begin + copy.box.extent[axis], layout_.chunk[axis]) - first[axis];
    chunks *= count[axis];
  }
  if (chunks == 1) {
    Wanted wanted = wanted_of(first, copy, target);
    if (read_at_once(wanted, out)) return;
    if (ring_ != nullptr || !wanted.in_part) return load_alone(std::move(wanted), out);
  }
  const std::lock_guard lock(turn_);
  const std::size_t most = group_chunks();
  std::vector<Wanted> group;
  std::vector<uint64_t> place(axes);
  for (uint64_t i = 0; i < chunks; ++i) {
    uint64_t in_axis = chunks;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      place[axis] = first[axis] + i % in_axis / (in_axis / count[axis]);
      in_axis /= count[axis];
    }
    Wanted wanted = wanted_of(place, copy, target);
    if (read_at_once(wanted, out)) continue;
    if (!find_kept(wanted, out)) group.push_back(std::move(wanted));
    if (group.size() < most) continue;
    load(group, out, tools_);
    group.clear();
  }
  load(group, out, tools_);
}

bool ChunkReader::read_at_once(const Wanted& wanted, std::span<std::byte> out) {
  if (layout_.places[wanted.number].bytes == 0) {
    for (const Line& line : wanted.lines) fill_with(layout_.fill, out.subspan(line.to, line.bytes));
    return true;
  }
  const bool straight = is_straight(wanted);
  if (straight) read_straight(wanted, out);
  return straight;
}

void ChunkReader::read_straight(const Wanted& wanted, std::span<std::byte> out) {
  const Line& line = wanted.lines.front();
  const std::span<std::byte> values = out.subspan(line.to, line.bytes);
  base::read_as<base::DatasetError>(
      [&] { file_->get().read(layout_.places[wanted.number].offset + line.from, values); });
  if (layout_.turned) turn_bytes(values, layout_.element_bytes);
}

void ChunkReader::load_alone(Wanted wanted, std::span<std::byte> out) {
  if (ring_ != nullptr && find_kept(wanted, out)) return;
  std::unique_ptr<Tools> tools;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      tools = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (!tools) {
    tools = std::make_unique<Tools>();
    tools->workers.emplace_back(layout_.filters, chunk_bytes_);
  }
  load(std::span(&wanted, 1), out, *tools);
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(tools));
}

ChunkReader::Wanted ChunkReader::wanted_of(std::span<const uint64_t> place, const BoxCopy& copy,
                                           std::span<const uint64_t> target) const {
  const std::size_t axes = place.size();
  BoxCopy part{.box = {.begin = std::vector<uint64_t>(axes), .extent = std::vector<uint64_t>(axes)},
               .at = std::vector<uint64_t>(axes)};
  Wanted wanted;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const uint64_t begin = place[axis] * layout_.chunk[axis];
    const uint64_t end = std::min(begin + layout_.chunk[axis], layout_.shape[axis]);
    const uint64_t box_end = copy.box.begin[axis] + copy.box.extent[axis];
    const uint64_t from = std::max(copy.box.begin[axis], begin);
    part.box.begin[axis] = from - begin;
    part.box.extent[axis] = std::min(box_end, end) - from;
    part.at[axis] = copy.at[axis] + from - copy.box.begin[axis];
    wanted.in_part = wanted.in_part || part.box.extent[axis] < end - begin;
    wanted.number = wanted.number * chunks_along(layout_.shape[axis], layout_.chunk[axis]) + place[axis];
  }
  wanted.lines = lines_of(part, layout_.chunk, target, layout_.element_bytes);
  return wanted;
}

void ChunkReader::share(ChunkRing& ring, uint64_t file) {
  ring_ = &ring;
  ring_file_ = file;
}

ChunkKey ChunkReader::ring_key(const Wanted& wanted) const {
  return {.file = ring_file_, .offset = layout_.places[wanted.number].offset};
}

bool ChunkReader::find_kept(const Wanted& wanted, std::span<std::byte> out) {
  if (ring_ != nullptr) return ring_->read(ring_key(wanted), wanted.lines, out);
  const std::vector<std::byte>* values = kept_.find(wanted.number);
  if (values == nullptr) return false;
  for (const Line& line : wanted.lines) std::memcpy(&out[line.to], &(*values)[line.from], line.bytes);
  return true;
}

std::size_t ChunkReader::group_chunks() const {
  const std::size_t each = 2 * chunk_bytes_;
  const std::size_t threads = tools_.workers.size();
  const std::size_t wanted = std::max(kGroupBytes / each, std::size_t{threads > 1 ? 2U : 1U}) * threads;
  return std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(kMostGroupBytes / each, 1));
}

bool ChunkReader::is_plain(const Wanted& wanted) const {
  return layout_.filters.empty() && layout_.places[wanted.number].bytes == chunk_bytes_;
}

bool ChunkReader::is_straight(const Wanted& wanted) const {
  return wanted.in_part && wanted.lines.size() == 1 && wanted.lines.front().bytes >= kGapBytes && digests_ == nullptr &&
         is_plain(wanted);
}

void ChunkReader::load(std::span<Wanted> group, std::span<std::byte> out, Tools& tools) {
  if (group.empty()) return;
  for (Wanted& wanted : group) {
    if (wanted.lines.front().bytes == chunk_bytes_) {
      wanted.values = out.subspan(wanted.lines.front().to, chunk_bytes_);
    } else if (wanted.in_part && ring_ == nullptr) {
      wanted.room = kept_.room(chunk_bytes_);
      wanted.values = wanted.room;
    }
  }
  base::read_as<base::DatasetError>([&] { fetch(group, tools.stored); });
  const std::size_t threads = std::min(tools.workers.size(), group.size() * chunk_bytes_ / kThreadBytes + 1);
  base::run_jobs(group.size(), threads,
                 [&](std::size_t i, std::size_t thread) { unpack(group[i], tools.workers[thread], out); });
  for (Wanted& wanted : group) {
    if (!wanted.room.empty()) kept_.put(wanted.number, std::move(wanted.room));
  }
}

void ChunkReader::fetch(std::span<Wanted> group, std::vector<std::byte>& stored) {
  std::vector<Wanted*> others;
  for (std::size_t i = 0; i < group.size(); ++i) {
    Wanted& wanted = group[i];
    const ChunkPlace& place = layout_.places[wanted.number];
    if (!is_plain(wanted) || wanted.values.empty()) {
      others.push_back(&wanted);
      continue;
    }
    wanted.stored = wanted.values;
    std::size_t bytes = chunk_bytes_;  // size of chunks that are neighbours both in the file and where they are wanted
    for (; i + 1 < group.size(); ++i, bytes += chunk_bytes_) {
      Wanted& next = group[i + 1];
      const bool follows = is_plain(next) && next.values.data() == wanted.values.data() + bytes &&
                           layout_.places[next.number].offset == place.offset + bytes;
      if (!follows || next.in_part) break;
      next.stored = next.values;
    }
    file_->get().read(place.offset, std::span(wanted.values.data(), bytes));
  }
  fetch_packed(others, stored);
}

void ChunkReader::fetch_packed(std::span<Wanted*> group, std::vector<std::byte>& stored) {
  const auto place_of = [&](const Wanted* wanted) { return layout_.places[wanted->number]; };
  std::ranges::sort(group, {}, [&](const Wanted* wanted) { return place_of(wanted).offset; });
  std::vector<Extent> reads;
  std::vector<std::size_t> begins;  // where each chunk of the group begins in `stored`
  std::size_t bytes = 0;
  uint64_t near = 0;  // where the next chunk may begin to be read along
  for (const Wanted* wanted : group) {
    const ChunkPlace place = place_of(wanted);
    if (reads.empty() || place.offset > near) {
      if (!reads.empty()) bytes += reads.back().bytes;
      reads.push_back({.offset = place.offset, .bytes = 0});
    }
    Extent& read = reads.back();
    begins.push_back(bytes + place.offset - read.offset);
    read.bytes = std::max(read.bytes, place.offset + place.bytes - read.offset);
    near = read.offset + read.bytes + std::min(kGapBytes, place.bytes + kPageBytes);
  }
  if (!reads.empty()) bytes += reads.back().bytes;
  if (stored.size() < bytes) stored.resize(bytes);
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i]->stored = std::span(stored).subspan(begins[i], place_of(group[i]).bytes);
  }
  std::size_t at = 0;
  for (const Extent& read : reads) {
    file_->get().read(read.offset, std::span(stored).subspan(at, read.bytes));
    at += read.bytes;
  }
}

void ChunkReader::unpack(Wanted& wanted, Worker& worker, std::span<std::byte> out) const {
  const ChunkPlace& place = layout_.places[wanted.number];
  const std::string subject = fmt::format("{}, chunk {} at byte {}", label_, wanted.number, place.offset);
  if (digests_ != nullptr) digests_->compare(place.offset, wanted.stored, subject);
  if (is_plain(wanted)) {
    wanted.values = wanted.stored;
  } else {
    if (wanted.values.empty()) {
      worker.room.resize(chunk_bytes_);
      wanted.values = worker.room;
    }
    worker.decoder.decode(place.skipped, subject, wanted.stored, wanted.values);
  }
  if (layout_.turned) turn_bytes(wanted.values, layout_.element_bytes);
  if (ring_ != nullptr && wanted.in_part) ring_->put(ring_key(wanted), wanted.values);
  if (&wanted.values.front() == &out[wanted.lines.front().to]) return;
  for (const Line& line : wanted.lines) std::memcpy(&out[line.to], &wanted.values[line.from], line.bytes);
}

}  // namespace ddpm::h5
