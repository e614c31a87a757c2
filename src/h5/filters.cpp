#include "h5/filters.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include "base/error.h"
#include "h5/shuffle.h"

namespace ddpm::h5 {

namespace {

// The numbers of HDF5 and of the registry of filters at https://github.com/HDFGroup/hdf5_plugins.
constexpr int kGzip = 1;
constexpr int kShuffle = 2;
constexpr int kFletcher32 = 3;
constexpr int kLzf = 32000;
constexpr int kLz4 = 32004;
constexpr int kBitshuffle = 32008;
constexpr int kZstd = 32015;

constexpr std::size_t kSumBytes = 4;
constexpr std::size_t kMostElementBytes = 1U << 16U;

constexpr std::pair<int, std::string_view> kNames[] = {
    {kGzip, "gzip"},  {kShuffle, "shuffle"}, {kFletcher32, "Fletcher-32"},
    {4, "szip"},      {5, "N-bit"},          {6, "scale-offset"},
    {305, "LZO"},     {307, "bzip2"},        {kLzf, "LZF"},
    {32001, "Blosc"}, {kLz4, "LZ4"},         {kBitshuffle, "bitshuffle"},
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
  if (data.size() < kHead) return fmt::format("{} bytes are too few for LZ4", data.size());
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

/// LibLZF's format, which h5py calls "lzf": a byte c below 32 stands before c + 1 values as they are. Another begins
/// the copy of earlier values: 2 more than its upper 3 bits say, where 7 adds the next byte, from a distance of 1 more
/// than its lower 5 bits and a byte.
std::string unpack_lzf(std::span<const std::byte> data, std::span<std::byte> out) {
  constexpr uint64_t kAsTheyAre = 32;
  constexpr uint64_t kLong = 7;
  std::size_t done = 0;
  const auto damaged = [&] { return fmt::format("damaged LZF after {} of {} bytes", done, out.size()); };
  while (!data.empty()) {
    const uint64_t control = take_number(data, 1);
    if (control < kAsTheyAre) {
      if (control + 1 > std::min(data.size(), out.size() - done)) return damaged();
      std::ranges::copy(take(data, control + 1), out.subspan(done).begin());
      done += control + 1;
      continue;
    }
    const bool is_long = control >> 5U == kLong;
    if (data.size() < (is_long ? 2U : 1U)) return damaged();
    const uint64_t length = (control >> 5U) + 2 + (is_long ? take_number(data, 1) : 0);
    const uint64_t distance = ((control % kAsTheyAre) << 8U | take_number(data, 1)) + 1;
    if (distance > done || length > out.size() - done) return damaged();
    for (const std::size_t end = done + length; done < end; ++done) out[done] = out[done - distance];
  }
  return done == out.size() ? "" : fmt::format("LZF gives {} bytes, {} are wanted", done, out.size());
}

std::string unpack_zstd(std::span<const std::byte> data, std::span<std::byte> out) {
  const std::size_t size = ZSTD_decompress(out.data(), out.size(), data.data(), data.size());
  if (ZSTD_isError(size) != 0) return fmt::format("damaged Zstandard: {}", ZSTD_getErrorName(size));
  return size == out.size() ? "" : fmt::format("Zstandard gives {} bytes, {} are wanted", size, out.size());
}

/// The parameters of bitshuffle; can_undo() has looked at them.
struct Bitshuffle {
  enum class Codec : unsigned { none = 0, lz4 = 2, zstd = 3 };

  explicit Bitshuffle(const Filter& filter)
      : element_bytes(filter.values.at(2)),
        block(filter.values.size() > 3 ? filter.values[3] : 0),
        codec(static_cast<Codec>(filter.values.size() > 4 ? filter.values[4] : 0)) {}
  /// Elements of a block where none are given: about 8 KiB.
  [[nodiscard]] std::size_t usual_block() const { return std::max<std::size_t>(128, 8192 / element_bytes / 8 * 8); }

  std::size_t element_bytes;
  std::size_t block;  ///< in elements; 0: the usual one
  Codec codec;
};

/// Unpacks a block, which comes after its packed size in 4 bytes. Returns what is wrong, or "".
std::string unpack_block(Bitshuffle::Codec codec, std::span<const std::byte>& data, std::span<std::byte> out) {
  const uint64_t packed = data.size() < 4 ? data.size() + 1 : take_number(data, 4);
  const auto most = static_cast<uint64_t>(std::numeric_limits<int>::max());
  if (packed > std::min<uint64_t>(data.size(), most)) return "bitshuffle lacks a block";
  const std::span<const std::byte> from = take(data, packed);
  if (codec == Bitshuffle::Codec::zstd) return unpack_zstd(from, out);
  const int size = LZ4_decompress_safe(chars(from), reinterpret_cast<char*>(out.data()), static_cast<int>(from.size()),
                                       static_cast<int>(out.size()));
  return size == static_cast<int>(out.size()) ? "" : "damaged LZ4 in bitshuffle";
}

/// Blocks of elements, the last one shorter but of 8 elements or a multiple, then up to 7 elements as they are. Packed
/// ones have a head: 8 bytes with the size, 4 with that of a block.
std::string unpack_bitshuffle(const Bitshuffle& how, std::span<const std::byte> data, std::span<std::byte> out) {
  const bool is_packed = how.codec != Bitshuffle::Codec::none;
  std::size_t block = how.block;
  uint64_t size = data.size();
  if (is_packed) {
    constexpr std::size_t kHead = 12;
    if (data.size() < kHead) return fmt::format("{} bytes are too few for bitshuffle", data.size());
    size = take_number(data, 8);
    block = take_number(data, 4) / how.element_bytes;
  }
  if (size != out.size()) return fmt::format("bitshuffle gives {} bytes, {} are wanted", size, out.size());
  if (block == 0) block = how.usual_block();
  if (block % 8 != 0 || size % how.element_bytes != 0) return fmt::format("bitshuffle in blocks of {}", block);
  BitUnshuffler unshuffler;
  std::vector<std::byte> unpacked;
  for (std::size_t left = size / how.element_bytes / 8 * 8; left > 0;) {
    const std::size_t bytes = std::min(left, block) * how.element_bytes;
    left -= std::min(left, block);
    unpacked.resize(is_packed ? bytes : 0);
    std::string wrong = is_packed ? unpack_block(how.codec, data, unpacked) : "";
    if (!wrong.empty()) return wrong;
    unshuffler.undo(is_packed ? unpacked : take(data, bytes), how.element_bytes, out.first(bytes));
    out = out.subspan(bytes);
  }
  if (data.size() < out.size()) return "bitshuffle lacks its last elements";
  std::ranges::copy(data.first(out.size()), out.begin());
  return "";
}

bool can_undo_bitshuffle(const Filter& filter) {
  if (filter.values.size() < 3 || filter.values[2] == 0 || filter.values[2] > kMostElementBytes) return false;
  const Bitshuffle how(filter);
  using enum Bitshuffle::Codec;
  return how.block % 8 == 0 && (how.codec == none || how.codec == lz4 || how.codec == zstd);
}

}  // namespace

bool can_undo(const Filter& filter) {
  switch (filter.id) {
    case kShuffle:
      return filter.values.size() == 1 && filter.values[0] > 0 && filter.values[0] <= kMostElementBytes;
    case kBitshuffle:
      return can_undo_bitshuffle(filter);
    case kGzip:
    case kFletcher32:
    case kLzf:
    case kLz4:
    case kZstd:
      return true;
    default:
      return false;
  }
}

bool can_undo_all(const std::vector<Filter>& filters) {
  const auto is_codec = [](const Filter& filter) { return filter.id != kShuffle && filter.id != kFletcher32; };
  return std::ranges::all_of(filters, can_undo) && std::ranges::count_if(filters, is_codec) <= 1;
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
  std::size_t sums = 0;  // checksums applied before the filter that is undone next; each made the chunk longer
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
    case kLzf:
      return unpack_lzf(data, out);
    case kLz4:
      return unpack_lz4(data, out);
    case kBitshuffle:
      return unpack_bitshuffle(Bitshuffle(filter), data, out);
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
