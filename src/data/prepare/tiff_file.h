// A TIFF file in memory, opened by libtiff: what its first picture is, and its blocks of samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/prepare/decode.h"

namespace ddpm::data::prepare {

/// What the samples of a TIFF file stand for.
enum class TiffColours : uint8_t { grey, white_is_zero, palette, rgb, inks };

/// The first picture of a TIFF file, as its tags say.
struct TiffHeader {
  int width = 0;
  int height = 0;
  int bits = 0;     ///< bits in a sample: 1, 2, 4, 8 or 16, or for floats 32 or 64
  int samples = 0;  ///< samples in a pixel: colours, and others behind them
  bool floats = false;
  TiffColours colours = TiffColours::grey;
  bool has_alpha = false;      ///< the first sample behind the colours is opacity
  bool premultiplied = false;  ///< colours are already multiplied by it
  bool planar = false;         ///< each block holds one sample of its pixels
  int orientation = 1;         ///< as that of EXIF

  /// Samples of a pixel that make its colour.
  [[nodiscard]] int colour_samples() const;
};

/// Pixels [x, x + width) of rows [y, y + height), in one block of the file. Those beyond the picture are padding.
struct TiffBlock {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  std::size_t row_bytes = 0;
  std::span<const uint8_t> bytes;  ///< rows of packed samples in the machine's byte order; of the next block anew
};

/// Every function throws DatasetError, or std::bad_alloc where memory ran out.
class TiffFile {
 public:
  /// `bytes` outlives the object.
  TiffFile(std::span<const std::byte> bytes, const DecodeLimits& limits);
  ~TiffFile();
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  /// Whether the samples are IEEE numbers.
  [[nodiscard]] bool holds_floats();
  /// The header of a picture that can be read within the limits; else an error.
  [[nodiscard]] TiffHeader header();
  /// The three columns of the palette of a picture of `bits` bits, one behind the other.
  [[nodiscard]] std::vector<uint8_t> palette(int bits);

  /// Calls take(block, sample) for each block of the picture, from the top. `sample` is the first one that it holds.
  template <typename Take>
  void for_each_block(const TiffHeader& header, const Take& take) {
    const int planes = header.planar ? header.samples : 1;
    for (int plane = 0; plane < planes; ++plane) {
      for (Position at; at.y < header.height;) take(read_block(header, plane, at), plane);
    }
  }

 private:
  struct State;
  /// Where the next block begins.
  struct Position {
    int x = 0;
    int y = 0;
  };

  /// Reads the block at `at`, and moves `at` on to the next.
  TiffBlock read_block(const TiffHeader& header, int plane, Position& at);
  TiffBlock read_strip(const TiffHeader& header, int plane, Position& at);
  TiffBlock read_tile(const TiffHeader& header, int plane, Position& at);
  std::span<uint8_t> room_for(uint64_t bytes);

  std::unique_ptr<State> state_;
};

}  // namespace ddpm::data::prepare
