#include "data/prepare/tiff_file.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <string_view>
#include <vector>

#include <tiffio.h>

#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

/// libtiff's view of the bytes. It maps them, and copies only where it has to.
struct Memory {
  std::span<const std::byte> bytes;
  uint64_t at = 0;
};

Memory& memory_of(thandle_t handle) { return *static_cast<Memory*>(handle); }

tmsize_t read_bytes(thandle_t handle, void* out, tmsize_t size) {
  Memory& memory = memory_of(handle);
  const uint64_t left = memory.at < memory.bytes.size() ? memory.bytes.size() - memory.at : 0;
  const auto count = std::min<uint64_t>(static_cast<uint64_t>(std::max<tmsize_t>(size, 0)), left);
  if (count > 0) std::memcpy(out, memory.bytes.data() + memory.at, count);
  memory.at += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t write_bytes(thandle_t /*handle*/, void* /*bytes*/, tmsize_t /*size*/) { return -1; }

toff_t seek(thandle_t handle, toff_t offset, int whence) {
  Memory& memory = memory_of(handle);
  if (whence == SEEK_CUR) offset += memory.at;
  if (whence == SEEK_END) offset += memory.bytes.size();
  return memory.at = offset;
}

int close_bytes(thandle_t /*handle*/) { return 0; }
toff_t size_of_bytes(thandle_t handle) { return memory_of(handle).bytes.size(); }

int map_bytes(thandle_t handle, void** base, toff_t* size) {
  // libtiff's own type is not const; it does not write into a file that is open for reading.
  *base = const_cast<std::byte*>(memory_of(handle).bytes.data());  // NOLINT
  *size = memory_of(handle).bytes.size();
  return 1;
}

void unmap_bytes(thandle_t /*handle*/, void* /*base*/, toff_t /*size*/) {}

/// The first of libtiff's complaints. Those that follow are consequences.
struct Complaint {
  std::array<char, 256> text = {};
  [[nodiscard]] std::string_view view() const { return text.data(); }
};

int on_error(TIFF* /*tiff*/, void* user, const char* /*module*/, const char* format, va_list arguments) {
  auto& complaint = *static_cast<Complaint*>(user);
  if (complaint.text.front() != '\0') return 1;
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): libtiff has begun it
  static_cast<void>(std::vsnprintf(complaint.text.data(), complaint.text.size(), format, arguments));
  return 1;
}

/// Warnings are of tags that are not known or not used.
int on_warning(TIFF* /*tiff*/, void* /*user*/, const char* /*module*/, const char* /*format*/, va_list /*arguments*/) {
  return 1;
}

/// libtiff says only by its texts that memory ran out. A refusal of its own limit is the picture's fault.
bool is_about_memory(std::string_view message) {
  if (message.find("is beyond the") != std::string_view::npos) return false;
  return message.find("emory") != std::string_view::npos || message.find("No space for") != std::string_view::npos;
}

[[noreturn]] void fail(const Complaint& complaint, std::string_view otherwise) {
  const std::string_view message = complaint.view();
  if (is_about_memory(message)) throw std::bad_alloc();
  throw base::DatasetError("TIFF: {}", message.empty() ? otherwise : message);
}

template <typename T>
T tag_or(TIFF* tiff, uint32_t tag, T otherwise) {
  T value = otherwise;
  return TIFFGetFieldDefaulted(tiff, tag, &value) == 1 ? value : otherwise;
}

TiffColours colours_of(TIFF* tiff) {
  const auto photometric = tag_or<uint16_t>(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  switch (photometric) {
    case PHOTOMETRIC_MINISBLACK:
      return TiffColours::grey;
    case PHOTOMETRIC_MINISWHITE:
      return TiffColours::white_is_zero;
    case PHOTOMETRIC_PALETTE:
      return TiffColours::palette;
    case PHOTOMETRIC_RGB:
      return TiffColours::rgb;
    case PHOTOMETRIC_SEPARATED:
      return TiffColours::inks;
    case PHOTOMETRIC_YCBCR:
      if (tag_or<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE) == COMPRESSION_JPEG) {
        TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);  // the codec converts
        return TiffColours::rgb;
      }
      throw base::DatasetError("TIFF: YCbCr is read only as JPEG");
    default:
      throw base::DatasetError("TIFF: photometric interpretation {} is not read", photometric);
  }
}

void read_alpha(TIFF* tiff, TiffHeader& header) {
  uint16_t count = 0;
  uint16_t* kinds = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1 || count == 0) return;
  if (header.samples <= header.colour_samples()) return;
  header.premultiplied = kinds[0] == EXTRASAMPLE_ASSOCALPHA;
  header.has_alpha = header.premultiplied || kinds[0] == EXTRASAMPLE_UNASSALPHA;
}

void check_samples(const TiffHeader& header) {
  const std::array<int, 5> integers = {1, 2, 4, 8, 16};
  const bool known = header.floats ? header.bits == 32 || header.bits == 64
                                   : std::ranges::find(integers, header.bits) != integers.end();
  const char* kind = header.floats ? "floating point" : "integers";
  if (!known) throw base::DatasetError("TIFF: {} of {} bits are not read", kind, header.bits);
  const int colours = header.colour_samples();
  const bool takes_one_more = header.has_alpha || colours > 1;  // a fourth sample of RGB may be without a meaning
  const int most = colours + (takes_one_more ? 1 : 0);
  if (header.samples < colours || header.samples > most) {
    throw base::DatasetError(
        "TIFF: {} samples per pixel, wanted {}{}; other bands are read from arrays, such as .npy or NetCDF",
        header.samples, colours, header.samples > colours ? ", and opacity as the only one beside them" : "");
  }
  if (header.colours == TiffColours::palette && (header.bits > 8 || header.floats)) {
    throw base::DatasetError("TIFF: a palette of {} bits is not read", header.bits);
  }
  if (header.floats && header.colours != TiffColours::grey && header.colours != TiffColours::rgb) {
    throw base::DatasetError("TIFF: floating point is read as grey or RGB");
  }
}

}  // namespace

int TiffHeader::colour_samples() const {
  if (colours == TiffColours::rgb) return 3;
  return colours == TiffColours::inks ? 4 : 1;
}

struct TiffFile::State {
  Memory memory;
  DecodeLimits limits;
  Complaint complaint;
  TIFF* tiff = nullptr;
  std::vector<uint8_t> block;

  /// No part of the file may be larger than the largest picture of the usual kind.
  [[nodiscard]] uint64_t most_bytes() const { return static_cast<uint64_t>(limits.max_pixels) * 4; }
};

TiffFile::TiffFile(std::span<const std::byte> bytes, const DecodeLimits& limits)
    : state_(std::make_unique<State>(
          State{.memory = {bytes, 0}, .limits = limits, .complaint = {}, .tiff = nullptr, .block = {}})) {
  constexpr uint64_t kTables = uint64_t{1} << 20U;
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                 TIFFOpenOptionsFree);
  if (!options) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(state_->most_bytes() + kTables));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, &state_->complaint);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, nullptr);
  state_->tiff = TIFFClientOpenExt("picture", "r", &state_->memory, read_bytes, write_bytes, seek, close_bytes,
                                   size_of_bytes, map_bytes, unmap_bytes, options.get());
  if (state_->tiff == nullptr) fail(state_->complaint, "the file is damaged");
}

TiffFile::~TiffFile() {
  if (state_->tiff != nullptr) TIFFClose(state_->tiff);
}

bool TiffFile::holds_floats() {
  return tag_or<uint16_t>(state_->tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT) == SAMPLEFORMAT_IEEEFP;
}

TiffHeader TiffFile::header() {
  TIFF* tiff = state_->tiff;
  const auto width = tag_or<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0);
  const auto height = tag_or<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0);
  if (width == 0 || height == 0) throw base::DatasetError("TIFF: {} x {} pixels", width, height);
  state_->limits.check("TIFF", width, height);
  const auto format = tag_or<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_IEEEFP && format != SAMPLEFORMAT_VOID) {
    throw base::DatasetError("TIFF: sample format {} is not read, wanted unsigned integers or floating point", format);
  }
  if (tag_or<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE) == COMPRESSION_OJPEG) {
    throw base::DatasetError("TIFF: the withdrawn JPEG compression of TIFF 6.0 is not read");
  }
  TiffHeader header;
  header.width = static_cast<int>(width);
  header.height = static_cast<int>(height);
  header.bits = tag_or<uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  header.samples = tag_or<uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  header.floats = format == SAMPLEFORMAT_IEEEFP;
  header.planar = tag_or<uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
  const auto orientation = tag_or<uint16_t>(tiff, TIFFTAG_ORIENTATION, 1);
  header.orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
  header.colours = colours_of(tiff);
  read_alpha(tiff, header);
  check_samples(header);
  return header;
}

std::vector<uint8_t> TiffFile::palette(int bits) {
  std::array<uint16_t*, 3> columns = {};
  if (TIFFGetField(state_->tiff, TIFFTAG_COLORMAP, &columns[0], &columns[1], &columns[2]) != 1) {
    throw base::DatasetError("TIFF: the palette is missing");
  }
  const std::size_t size = std::size_t{1} << static_cast<unsigned>(bits);
  std::vector<uint8_t> colours;
  // Programs write 8 bits as v * 256 or as v * 257; the upper byte is v of both.
  for (const uint16_t* column : columns) {
    for (std::size_t i = 0; i < size; ++i) colours.push_back(static_cast<uint8_t>(column[i] >> 8U));
  }
  return colours;
}

std::span<uint8_t> TiffFile::room_for(uint64_t bytes) {
  if (bytes == 0 || bytes > state_->most_bytes()) {
    throw base::DatasetError("TIFF: a strip or tile of {} bytes is more than the limit of {}", bytes,
                             state_->most_bytes());
  }
  state_->block.resize(bytes);
  return state_->block;
}

TiffBlock TiffFile::read_block(const TiffHeader& header, int plane, Position& at) {
  return TIFFIsTiled(state_->tiff) != 0 ? read_tile(header, plane, at) : read_strip(header, plane, at);
}

TiffBlock TiffFile::read_strip(const TiffHeader& header, int plane, Position& at) {
  TIFF* tiff = state_->tiff;
  const auto most = static_cast<uint32_t>(std::numeric_limits<int>::max());
  const auto rows_per_strip = std::clamp(tag_or<uint32_t>(tiff, TIFFTAG_ROWSPERSTRIP, most), 1U, most);
  const int rows = std::min(static_cast<int>(rows_per_strip), header.height - at.y);
  const uint64_t row_bytes = TIFFScanlineSize64(tiff);
  const std::span<uint8_t> room = room_for(row_bytes * static_cast<uint64_t>(rows));
  const uint32_t strip = TIFFComputeStrip(tiff, static_cast<uint32_t>(at.y), static_cast<uint16_t>(plane));
  const tmsize_t got = TIFFReadEncodedStrip(tiff, strip, room.data(), static_cast<tmsize_t>(room.size()));
  if (got != static_cast<tmsize_t>(room.size())) fail(state_->complaint, "the image is cut short");
  const TiffBlock block{0, at.y, header.width, rows, row_bytes, room};
  at.y += rows;
  return block;
}

TiffBlock TiffFile::read_tile(const TiffHeader& header, int plane, Position& at) {
  TIFF* tiff = state_->tiff;
  const auto width = tag_or<uint32_t>(tiff, TIFFTAG_TILEWIDTH, 0);
  const auto height = tag_or<uint32_t>(tiff, TIFFTAG_TILELENGTH, 0);
  if (width == 0 || height == 0) throw base::DatasetError("TIFF: tiles of {} x {} pixels", width, height);
  state_->limits.check("TIFF: tiles of", width, height);
  const std::span<uint8_t> room = room_for(TIFFTileSize64(tiff));
  const uint32_t tile =
      TIFFComputeTile(tiff, static_cast<uint32_t>(at.x), static_cast<uint32_t>(at.y), 0, static_cast<uint16_t>(plane));
  const tmsize_t got = TIFFReadEncodedTile(tiff, tile, room.data(), static_cast<tmsize_t>(room.size()));
  if (got != static_cast<tmsize_t>(room.size())) fail(state_->complaint, "the image is cut short");
  const TiffBlock block{at.x,
                        at.y,
                        std::min(static_cast<int>(width), header.width - at.x),
                        std::min(static_cast<int>(height), header.height - at.y),
                        TIFFTileRowSize64(tiff),
                        room};
  at.x += static_cast<int>(width);
  if (at.x >= header.width) at = {0, at.y + static_cast<int>(height)};
  return block;
}

}  // namespace ddpm::data::prepare
