#include <bit>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <png.h>

#include "base/check.h"
#include "base/error.h"
#include "data/prepare/blend.h"
#include "data/prepare/decode.h"
#include "data/prepare/exif.h"
#include "data/prepare/guarded.h"

namespace ddpm::data::prepare {
namespace {

struct Source {
  ErrorTrap trap;
  std::span<const std::byte> rest;
};

/// libpng and zlib say only by their texts that memory ran out: "Out of memory", "insufficient memory".
bool is_about_memory(std::string_view message) { return message.find("memory") != std::string_view::npos; }

void on_error(png_structp png, png_const_charp message) {
  ErrorTrap& trap = static_cast<Source*>(png_get_error_ptr(png))->trap;
  if (!trap.set) return;  // libpng's structures are being made, which it jumps out of by itself
  trap.out_of_memory = is_about_memory(message);
  trap.raise(message);
}

// Warnings are about chunks that are not used, or about data after the image; but where memory ran out, the orientation
// may have been dropped.
void on_warning(png_structp png, png_const_charp message) {
  if (is_about_memory(message)) on_error(png, message);
}

void on_read(png_structp png, png_bytep out, std::size_t size) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->rest.size() < size) png_error(png, "the file ends early");
  std::memcpy(out, source->rest.data(), size);
  source->rest = source->rest.subspan(size);
}

/// libpng's two structures. Calls between construction and destruction go through run().
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : source_{{}, bytes} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_error, on_warning);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Runs work(png, info); throws what libpng complains of.
  template <typename Work>
  void run(const Work& work) {
    if (info_ == nullptr) throw std::bad_alloc();
    if (!guarded(source_.trap, [&] { work(png_, info_); })) throw_trapped(source_.trap, "PNG");
  }
  [[nodiscard]] Source* source() { return &source_; }

 private:
  Source source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

struct Header {
  png_uint_32 width;
  png_uint_32 height;
  int channels;  ///< after expansion: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
  int bits;      ///< bits in a value: 16 where there is opacity to multiply by, otherwise 8
  std::size_t row_bytes;
};

Header read_header(Reader& reader, const DecodeLimits& limits) {
  Header header{};
  reader.run([&](png_structp png, png_infop info) {
    png_set_read_fn(png, reader.source(), on_read);
    const auto side = static_cast<png_uint_32>(limits.max_side);
    png_set_user_limits(png, side, side);
    // A damaged tRNS would otherwise be dropped with a warning, and the transparency with it.
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Text, profiles and other extras are not even unpacked; only the orientation is wanted.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    static constexpr std::array<png_byte, 5> kOrientationChunk = {'e', 'X', 'I', 'f', '\0'};
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, kOrientationChunk.data(), 1);
    png_read_info(png, info);
    const bool has_alpha = (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0;
    png_set_expand(png);                    // palettes, fewer than 8 bits, tRNS to alpha
    if (!has_alpha) png_set_scale_16(png);  // v / 257, rounded
    if constexpr (std::endian::native == std::endian::little) png_set_swap(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    header.width = png_get_image_width(png, info);
    header.height = png_get_image_height(png, info);
    header.channels = png_get_channels(png, info);
    header.bits = png_get_bit_depth(png, info);
    header.row_bytes = png_get_rowbytes(png, info);
  });
  limits.check("PNG", header.width, header.height);
  return header;
}

/// Reads the pixels, and returns the orientation.
template <typename T>
int read_pixels(Reader& reader, const Header& header, BasicImage<T>& image) {
  const std::size_t row_bytes = image.row_size() * sizeof(T);
  DDPM_CHECK(header.row_bytes == row_bytes, "row of {} bytes, wanted {}", header.row_bytes, row_bytes);
  std::vector<png_bytep> rows(header.height);
  for (int y = 0; y < image.height; ++y) {
    rows[static_cast<std::size_t>(y)] = reinterpret_cast<png_bytep>(image.row(y).data());  // NOLINT: libpng's own type
  }
  int orientation = 1;
  reader.run([&](png_structp png, png_infop info) {
    png_read_image(png, rows.data());
    png_read_end(png, info);
    png_bytep exif = nullptr;
    png_uint_32 exif_size = 0;
    if (png_get_eXIf_1(png, info, &exif_size, &exif) != 0) orientation = exif_orientation({exif, exif_size});
  });
  return orientation;
}

template <typename T>
Decoded decode_values(Reader& reader, const Header& header) {
  BasicImage<T> image(static_cast<int>(header.width), static_cast<int>(header.height), header.channels);
  const int orientation = read_pixels(reader, header, image);
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (header.channels % 2 == 1) return {std::move(image), orientation};
  }
  return {laid_over_white(image), orientation};
}

}  // namespace

Decoded decode_png(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  Reader reader(bytes);
  const Header header = read_header(reader, limits);
  return header.bits == 16 ? decode_values<uint16_t>(reader, header) : decode_values<uint8_t>(reader, header);
}

}  // namespace ddpm::data::prepare
