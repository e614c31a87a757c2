#include "h5/filters.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include "base/error.h"

namespace ddpm::h5 {

namespace {

// The numbers of HDF5 and of the registry of filters at https://github.com/HDFGroup/hdf5_plugins.
constexpr int kGzip = 1;
constexpr int kShuffle = 2;
constexpr int kFletcher32 = 3;
constexpr int kLz4 = 32004;
constexpr int kZstd = 32015;

constexpr std::size_t kSumBytes = 4;
constexpr std::size_t kMostElementBytes = 1U << 16U;

constexpr std::pair<int, std::string_view> kNames[] = {
    {kGzip, "gzip"},  {kShuffle, "shuffle"}, {kFletcher32, "Fletcher-32"},
    {4, "szip"},      {5, "N-bit"},          {6, "scale-offset"},
    {305, "LZO"},     {307, "bzip2"},        {32000, "LZF"},
    {32001, "Blosc"}, {kLz4, "LZ4"},         {32008, "bitshuffle"},
    {32013, "ZFP"},   {kZstd, "Zstandard"},  {32017, "SZ"},
    {32026, "Blosc2"}};

std::span<const std::byte> take(std::span<const std::byte>& data, std::size_t bytes) {
  const auto front = data.first(bytes);
  data = data.subspan(bytes);
  return front;
}

/// The number in the first bytes, most significant first; there are as many.
uint64_t take_number(std::span<const std::byte>& data, std::size_t bytes) {
  uint64_t value = 0;
  for (const std::byte b : take(data, bytes)) value = value << 8U | std::to_integer<uint64_t>(b);
  return value;
}

const char* chars(std::span<const std::byte> data) { return reinterpret_cast<const char*>(data.data()); }

/// Byte k of element i lies at k · n + i.
template <std::size_t kBytes>
void unshuffle(const std::byte* __restrict in, std::size_t n, std::byte* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < kBytes; ++k) out[i * kBytes + k] = in[k * n + i];
  }
}

void unshuffle(std::span<const std::byte> data, std::size_t element_bytes, std::span<std::byte> out) {
  const std::size_t n = data.size() / element_bytes;
  switch (element_bytes) {
    case 2:
      unshuffle<2>(data.data(), n, out.data());
      break;
    case 4:
      unshuffle<4>(data.data(), n, out.data());
      break;
    case 8:
      unshuffle<8>(data.data(), n, out.data());
      break;
    default:
      for (std::size_t k = 0; k < element_bytes; ++k) {
        for (std::size_t i = 0; i < n; ++i) out[i * element_bytes + k] = data[k * n + i];
      }
  }
  std::ranges::copy(data.subspan(n * element_bytes),
                    out.begin() + static_cast<std::ptrdiff_t>(n * element_bytes));  // stored as they are
}

/// HDF5's form of Fletcher's checksum: over 16-bit words, most significant byte first, an odd byte as a whole word.
uint32_t fletcher32(std::span<const std::byte> data) {
  constexpr std::size_t kWords = 360;  // after so many the sums must be folded, or they overflow
  const auto fold = [](uint32_t sum) { return (sum & 0xffffU) + (sum >> 16U); };
  const auto byte = [&](std::size_t i) { return std::to_integer<uint32_t>(data[i]); };
  uint32_t first = 0;
  uint32_t second = 0;
  const std::size_t words = data.size() / 2;
  for (std::size_t w = 0; w < words;) {
    for (const std::size_t end = std::min(words, w + kWords); w < end; ++w) {
      first += byte(2 * w) << 8U | byte(2 * w + 1);
      second += first;
    }
    first = fold(first);
    second = fold(second);
  }
  if (data.size() % 2 != 0) {
    first += byte(data.size() - 1) << 8U;
    second += first;
    first = fold(first);
    second = fold(second);
  }
  return fold(second) << 16U | fold(first);
}

/// Checks the sum after the values, which is stored least significant byte first.
std::string check_sum(std::span<const std::byte> data) {
  if (data.size() < kSumBytes) return fmt::format("{} bytes hold no checksum", data.size());
  uint32_t stored = 0;
  for (std::size_t i = 0; i < kSumBytes; ++i) {
    stored |= std::to_integer<uint32_t>(data[data.size() - kSumBytes + i]) << (8 * i);
  }
  const uint32_t found = fletcher32(data.first(data.size() - kSumBytes));
  return found == stored ? "" : fmt::format("its checksum is {:08x}, {:08x} is stored", found, stored);
}

/// The layout of the registered filter: 8 bytes with the size, 4 with that of a block, and of each block 4 bytes with
/// its size and the packed values; a block of its full size is not packed.
std::string unpack_lz4(std::span<const std::byte> data, std::span<std::byte> out) {
  constexpr std::size_t kHead = 12;
  if (data.size() < kHead) return fmt::format("{} bytes are no LZ4", data.size());
  const uint64_t size = take_number(data, 8);
  const uint64_t block = take_number(data, 4);
  if (size != out.size()) return fmt::format("LZ4 gives {} bytes, {} are wanted", size, out.size());
  if (block == 0) return "LZ4 in blocks of 0 bytes";
  for (std::size_t done = 0; done < out.size();) {
    const std::span<std::byte> to = out.subspan(done, std::min<std::size_t>(block, out.size() - done));
    const uint64_t packed = data.size() < 4 ? data.size() + 1 : take_number(data, 4);
    // No writer needs more, and more than 2 GiB would not fit into LZ4's int.
    const auto most = static_cast<uint64_t>(LZ4_compressBound(static_cast<int>(to.size())));
    if (packed > std::min<uint64_t>(data.size(), most))
      return fmt::format("LZ4 has no block after {} of {} bytes", done, out.size());
    const std::span<const std::byte> from = take(data, packed);
    if (packed == to.size()) {
      std::ranges::copy(from, to.begin());
    } else if (LZ4_decompress_safe(chars(from), reinterpret_cast<char*>(to.data()), static_cast<int>(from.size()),
                                   static_cast<int>(to.size())) != static_cast<int>(to.size())) {
      return fmt::format("damaged LZ4 after {} of {} bytes", done, out.size());
    }
    done += to.size();
  }
  return "";
}

std::string unpack_zstd(std::span<const std::byte> data, std::span<std::byte> out) {
  const std::size_t size = ZSTD_decompress(out.data(), out.size(), data.data(), data.size());
  if (ZSTD_isError(size) != 0) return fmt::format("damaged Zstandard: {}", ZSTD_getErrorName(size));
  return size == out.size() ? "" : fmt::format("Zstandard gives {} bytes, {} are wanted", size, out.size());
}

}  // namespace

bool can_undo(const Filter& filter) {
  switch (filter.id) {
    case kShuffle:
      return filter.values.size() == 1 && filter.values[0] > 0 && filter.values[0] <= kMostElementBytes;
    case kGzip:
    case kFletcher32:
    case kLz4:
    case kZstd:
      return true;
    default:
      return false;
  }
}

std::string name_of_filter(int id) {
  const auto* const found = std::ranges::find(kNames, id, &std::pair<int, std::string_view>::first);
  return found == std::end(kNames) ? fmt::format("{}", id) : fmt::format("{} ({})", id, found->second);
}

void ChunkDecoder::Release::operator()(libdeflate_decompressor* decompressor) const {
  libdeflate_free_decompressor(decompressor);
}

ChunkDecoder::ChunkDecoder(std::vector<Filter> filters, std::size_t chunk_bytes)
    : filters_(std::move(filters)), chunk_bytes_(chunk_bytes), gzip_(libdeflate_alloc_decompressor()) {
  if (!gzip_) throw std::bad_alloc();
}

ChunkDecoder::~ChunkDecoder() = default;

void ChunkDecoder::decode(uint32_t skipped, std::string_view subject, std::span<const std::byte> data,
                          std::span<std::byte> out) {
  std::vector<const Filter*> applied;  // those that change the bytes
  std::size_t sums = 0;  // of filters that were applied before the next that is undone; each made the chunk longer
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    const bool changes = filters_[i].id != kShuffle || filters_[i].values.front() > 1;
    if ((skipped >> i & 1U) != 0 || !changes) continue;
    applied.push_back(&filters_[i]);
    sums += filters_[i].id == kFletcher32 ? 1 : 0;
  }
  for (std::size_t i = applied.size(); i-- > 0;) {
    std::string wrong;
    if (applied[i]->id == kFletcher32) {
      --sums;
      wrong = check_sum(data);
      if (wrong.empty()) data = data.first(data.size() - kSumBytes);
    } else {
      const std::size_t bytes = applied[i]->id == kShuffle ? data.size() : chunk_bytes_ + sums * kSumBytes;
      const bool is_last = i == 0 && bytes == out.size();
      std::vector<std::byte>& room = steps_[data.data() == steps_[0].data() ? 1 : 0];  // where `data` does not lie
      if (!is_last) room.resize(bytes);
      const std::span<std::byte> to = is_last ? out : std::span(room);
      wrong = undo(*applied[i], data, to);
      data = to;
    }
    if (!wrong.empty()) throw base::DatasetError("{}: {}", subject, wrong);
  }
  if (data.size() != chunk_bytes_) {
    throw base::DatasetError("{}: it has {} bytes, {} are wanted", subject, data.size(), chunk_bytes_);
  }
  if (data.data() != out.data()) std::ranges::copy(data, out.begin());
}

std::string ChunkDecoder::undo(const Filter& filter, std::span<const std::byte> data, std::span<std::byte> out) {
  switch (filter.id) {
    case kShuffle:
      unshuffle(data, filter.values.front(), out);
      return "";
    case kGzip:
      return unpack_gzip(data, out);
    case kLz4:
      return unpack_lz4(data, out);
    default:
      return unpack_zstd(data, out);
  }
}

std::string ChunkDecoder::unpack_gzip(std::span<const std::byte> data, std::span<std::byte> out) {
  std::size_t size = 0;
  const libdeflate_result end =
      libdeflate_zlib_decompress(gzip_.get(), data.data(), data.size(), out.data(), out.size(), &size);
  if (end == LIBDEFLATE_INSUFFICIENT_SPACE) return fmt::format("gzip gives more than {} bytes", out.size());
  if (end != LIBDEFLATE_SUCCESS) return "damaged gzip";
  return size == out.size() ? "" : fmt::format("gzip gives {} bytes, {} are wanted", size, out.size());
}

}  // namespace ddpm::h5
