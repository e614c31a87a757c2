#include <cstring>

// Each of these needs the one before it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "base/error.h"
#include "data/prepare/blend.h"
#include "data/prepare/decode.h"
#include "data/prepare/exif.h"
#include "data/prepare/guarded.h"

namespace ddpm::data::prepare {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;

/// libjpeg's structure with the callbacks' own data behind it.
struct State {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  ErrorTrap trap;
  int max_scans = 0;
};

State& state_of(j_common_ptr jpeg) { return *static_cast<State*>(jpeg->client_data); }

void on_error(j_common_ptr jpeg) {
  std::array<char, JMSG_LENGTH_MAX> text = {};
  jpeg->err->format_message(jpeg, text.data());
  ErrorTrap& trap = state_of(jpeg).trap;
  trap.out_of_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
  trap.raise(text.data());
}

/// Warnings that stand for lost pixels are errors; the others (bytes between markers, odd Adobe flags) are not.
void on_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;  // a trace
  const int code = jpeg->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC ||
      code == JWRN_ARITH_BAD_CODE) {
    on_error(jpeg);
  }
}

/// A small file may ask for thousands of passes over a large image.
void on_progress(j_common_ptr jpeg) {
  State& state = state_of(jpeg);
  if (state.jpeg.input_scan_number > state.max_scans) state.trap.raise("too many progressive scans");
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const DecodeLimits& limits) {
    state_.jpeg.err = jpeg_std_error(&state_.errors);
    state_.errors.error_exit = on_error;
    state_.errors.emit_message = on_message;
    state_.progress.progress_monitor = on_progress;
    state_.max_scans = limits.max_jpeg_scans;
    run([&](jpeg_decompress_struct& jpeg) {
      jpeg.client_data = &state_;  // kept by jpeg_create_decompress, which may already fail
      jpeg_create_decompress(&jpeg);
      jpeg.progress = &state_.progress;
      jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_save_markers(&jpeg, kExifMarker, 0xFFFF);
    });
  }
  // Safe also when creation failed: it frees what is there.
  ~Reader() { jpeg_destroy_decompress(&state_.jpeg); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Runs work(jpeg); throws what libjpeg complains of.
  template <typename Work>
  void run(const Work& work) {
    if (!guarded(state_.trap, [&] { work(state_.jpeg); })) throw_trapped(state_.trap, "JPEG");
  }
  [[nodiscard]] const jpeg_decompress_struct& jpeg() const { return state_.jpeg; }

 private:
  State state_;
};

/// The library's colour conversion ends at grey, RGB or CMYK.
J_COLOR_SPACE output_space(J_COLOR_SPACE stored) {
  switch (stored) {
    case JCS_GRAYSCALE:
      return JCS_GRAYSCALE;
    case JCS_CMYK:
    case JCS_YCCK:
      return JCS_CMYK;
    default:
      return JCS_RGB;
  }
}

void read_header(Reader& reader, const DecodeLimits& limits) {
  reader.run([](jpeg_decompress_struct& jpeg) {
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = output_space(jpeg.jpeg_color_space);
  });
  limits.check("JPEG", reader.jpeg().image_width, reader.jpeg().image_height);
}

int read_orientation(const jpeg_decompress_struct& jpeg) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  for (jpeg_saved_marker_ptr marker = jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const std::span<const uint8_t> data(marker->data, marker->data_length);
    if (marker->marker != kExifMarker || data.size() < kPrefix.size()) continue;
    if (std::memcmp(data.data(), kPrefix.data(), kPrefix.size()) == 0) {
      return exif_orientation(data.subspan(kPrefix.size()));
    }
  }
  return 1;
}

}  // namespace

Decoded decode_jpeg(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  Reader reader(bytes, limits);
  read_header(reader, limits);
  const int orientation = read_orientation(reader.jpeg());
  reader.run([](jpeg_decompress_struct& jpeg) { jpeg_start_decompress(&jpeg); });

  const jpeg_decompress_struct& jpeg = reader.jpeg();
  Image image(static_cast<int>(jpeg.output_width), static_cast<int>(jpeg.output_height), jpeg.output_components);
  reader.run([&](jpeg_decompress_struct& decoder) {
    while (decoder.output_scanline < decoder.output_height) {
      JSAMPROW row = image.row(static_cast<int>(decoder.output_scanline)).data();
      jpeg_read_scanlines(&decoder, &row, 1);
    }
    jpeg_finish_decompress(&decoder);
  });
  // Adobe's programs began to store the complements of inks, and other writers and readers (Pillow among them) follow,
  // with Adobe's marker and without.
  if (jpeg.out_color_space == JCS_CMYK) inks_to_rgb(image);
  return {std::move(image), orientation};
}

}  // namespace ddpm::data::prepare
