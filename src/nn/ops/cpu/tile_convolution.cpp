// Convolution by instructions that multiply whole tiles of bfloat16 (AMX), for some rows of one image.
//
// The image's rows are copied to where zeros surround them. There, 16 positions in a row are the rows of a tile for
// each tap, at another place: no pixel is moved again. Two such tiles by two of weights stay in registers while their
// sums run.
#include "nn/ops/cpu/kernels.h"
#include "nn/ops/cpu/small_products.h"
#include "nn/ops/cpu/tiles.h"

namespace ddpm::nn::cpu {
namespace {

constexpr int64_t kCopyBytes = 512 << 10;         ///< of a copy that leaves room for weights in the second-level cache
constexpr int64_t kWeights = 2 * kSide * kDepth;  ///< numbers in two tiles of weights
constexpr int kMostTaps = 9;

/// A position of the result, or of one of its phases.
struct Position {
  int64_t row;
  int64_t column;
};

/// Where the pixels of some rows lie in their copy. It has planes of rows of `columns` pixels: one with every pixel,
/// where the zero that ends a row begins the next one; or four with every second one along each axis, which begin with
/// rows and columns 0 and 1.
struct Copy {
  Copy(const TileConvolutionShape& shape, int64_t rows)
      : step(shape.window == Window::halved ? 2 : 1),
        columns(shape.width + 1),
        rows_of_plane(rows + 3 - step),
        plane(rows_of_plane * columns + 1) {}

  [[nodiscard]] int64_t planes() const { return step * step; }
  /// What the last tile reads beyond does not reach the result.
  [[nodiscard]] int64_t pixels() const { return planes() * plane + 2 * kSide; }

  int64_t step;
  int64_t columns;
  int64_t rows_of_plane;
  int64_t plane;  ///< pixels from one plane to the next
};

DDPM_INLINE void copy_pixel(const BFloat16* from, int64_t channels, BFloat16* to) {
  for (int64_t c = 0; c < channels; c += kDepth) _mm512_storeu_si512(to + c, _mm512_loadu_si512(from + c));
}

DDPM_INLINE void clear_pixel(int64_t channels, BFloat16* to) {
  for (int64_t c = 0; c < channels; c += kDepth) _mm512_storeu_si512(to + c, _mm512_setzero_si512());
}

void copy_rows(const TileConvolutionShape& shape, const Copy& copy, int64_t first_row, const BFloat16* x,
               BFloat16* to) {
  const int64_t height = copy.step * shape.height;
  const int64_t width = copy.step * shape.width;
  for (int64_t plane = 0; plane < copy.planes(); ++plane) {
    const Position begin{plane / 2 - shape.before, plane % 2 - shape.before};
    for (int64_t r = 0; r < copy.rows_of_plane; ++r) {
      const int64_t row = begin.row + copy.step * (first_row + r);
      for (int64_t i = 0; i < copy.columns; ++i, to += shape.in) {
        const int64_t column = begin.column + copy.step * i;
        if (row >= 0 && row < height && column >= 0 && column < width) {
          copy_pixel(x + (row * width + column) * shape.in, shape.in, to);
        } else {
          clear_pixel(shape.in, to);
        }
      }
    }
    clear_pixel(shape.in, to);
    to += shape.in;
  }
}

/// The taps of one phase: how far, in numbers, what each reads lies behind a position in the copy.
struct Taps {
  Taps(const TileConvolutionShape& shape, const Copy& copy, int64_t phase)
      : count(shape.window == Window::doubled ? 4 : kMostTaps) {
    const auto side = static_cast<int64_t>(count == 4 ? 2 : 3);
    for (int64_t tap = 0; tap < count; ++tap) {
      const Position at{phase / 2 + tap / side, phase % 2 + tap % side};
      const int64_t plane = at.row % copy.step * 2 + at.column % copy.step;
      offset[tap] = (plane * copy.plane + at.row / copy.step * copy.columns + at.column / copy.step) * shape.in;
    }
  }

  int64_t count;
  int64_t offset[kMostTaps];
};

/// Cuts rows of `width` positions, which are `width` + 1 apart, into tiles of 16: by rows, or without regard to their
/// ends, whichever needs fewer. Positions behind a row's end are computed in vain, or twice.
class Tiling {
 public:
  Tiling(int64_t rows, int64_t width) : columns_(width + 1), tiles_of_row_(rounded_up(width, kSide) / kSide) {
    const int64_t through = rounded_up(rows * columns_, kSide) / kSide;
    by_rows_ = rows * tiles_of_row_ <= through;
    count_ = by_rows_ ? rows * tiles_of_row_ : through;
  }

  [[nodiscard]] int64_t count() const { return count_; }
  [[nodiscard]] Position at(int64_t tile) const {
    if (by_rows_) return {tile / tiles_of_row_, tile % tiles_of_row_ * kSide};
    return {tile * kSide / columns_, tile * kSide % columns_};
  }

 private:
  int64_t columns_;
  int64_t tiles_of_row_;
  bool by_rows_;
  int64_t count_;
};

/// Buffers of one thread.
struct Scratch {
  Scratch(float* memory, int64_t numbers) : pieces(memory) {
    sums = pieces.take(4 * kSide * kSide);
    pixels = reinterpret_cast<BFloat16*>(pieces.take(numbers / 2));
  }

  Pieces pieces;
  float* sums;       ///< [2 tiles of positions, 2 of outputs, 16, 16]
  BFloat16* pixels;  ///< the copy
};

/// Two tiles of positions by two of outputs: registers 0 to 3 are the sums, 4 and 5 pixels, 6 and 7 weights.
DDPM_INLINE void multiply(const Taps& taps, int64_t channels, const BFloat16* first, const BFloat16* second,
                          const BFloat16* weights, float* sums) {
  const int64_t stride = channels * static_cast<int64_t>(sizeof(BFloat16));
  order_memory();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    const int64_t offset = taps.offset[tap];
    for (int64_t c = offset; c < offset + channels; c += kDepth, weights += kWeights) {
      _tile_loadd(4, first + c, stride);
      _tile_loadd(6, weights, kRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, weights + kWeights / 2, kRowBytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, second + c, stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, sums + kSide * kSide, kRowBytes);
  _tile_stored(2, sums + 2 * kSide * kSide, kRowBytes);
  _tile_stored(3, sums + 3 * kSide * kSide, kRowBytes);
  order_memory();
}

/// Where the results of a phase's positions lie: row 0 and column 0 of a part, and from there on.
struct Results {
  BFloat16* first;
  int64_t rows;
  int64_t width;
  int64_t row;     ///< numbers from one row to the next
  int64_t column;  ///< numbers from one column to the next

  /// Adds bias[32] to what two tiles have summed up for 16 positions from `begin` on, and keeps the columns that exist.
  DDPM_INLINE void store(Position begin, const float* sums, const float* bias, BFloat16* outputs) const {
    const Vector biases[] = {load<kSide>(bias), load<kSide>(bias + kSide)};
    int64_t r = begin.row;
    int64_t c = begin.column;
    for (int64_t i = 0; i < kSide && r < rows; ++i, ++r, c = 0) {
      const int64_t end = i + least(kSide - i, width - c);
      for (BFloat16* to = outputs + r * row + c * column; i < end; ++i, to += column) {
        const Vector low = load<kSide>(sums + i * kSide) + biases[0];
        const Vector high = load<kSide>(sums + (kSide + i) * kSide) + biases[1];
        _mm512_storeu_si512(to, rounded(low, high));
      }
    }
  }
};

Results results_of(const TileConvolutionShape& shape, const TileConvolutionPart& part, int64_t phase, BFloat16* y) {
  const int64_t scale = shape.window == Window::doubled ? 2 : 1;
  const int64_t row = scale * shape.width * shape.out;
  return {.first = y + (scale * part.first_row + phase / 2) * row + phase % 2 * shape.out,
          .rows = part.rows,
          .width = shape.width,
          .row = scale * row,
          .column = scale * shape.out};
}

void convolve(const TileConvolutionShape& shape, const TileConvolutionPart& part, const BFloat16* x,
              const BFloat16* weights, const float* bias, BFloat16* y, float* scratch) {
  const Copy copy(shape, part.rows);
  const Scratch s(scratch, copy.pixels() * shape.in);
  const Tiling tiling(part.rows, shape.width);
  const TileRegisters registers{TileShapes{}};
  copy_rows(shape, copy, part.first_row, x, s.pixels);
  const int64_t phases = shape.window == Window::doubled ? 4 : 1;
  for (int64_t phase = 0; phase < phases; ++phase) {
    const Taps taps(shape, copy, phase);
    const Results results = results_of(shape, part, phase, y);
    for (int64_t o = part.first_output; o < part.first_output + part.outputs; o += kTileChannels) {
      const BFloat16* const kernels = weights + (phase * shape.out + o) * taps.count * shape.in;
      for (int64_t tile = 0; tile < tiling.count(); tile += 2) {
        const Position one = tiling.at(tile);
        const Position other = tiling.at(least(tile + 1, tiling.count() - 1));  // the last one twice
        const auto at = [&](Position p) { return s.pixels + (p.row * copy.columns + p.column) * shape.in; };
        multiply(taps, shape.in, at(one), at(other), kernels, s.sums);
        results.store(one, s.sums, bias + o, results.first + o);
        results.store(other, s.sums + 2 * kSide * kSide, bias + o, results.first + o);
      }
    }
  }
}

int64_t rows_of_part(const TileConvolutionShape& shape) {
  const Copy copy(shape, 1);
  const int64_t row = copy.planes() * copy.columns * shape.in * static_cast<int64_t>(sizeof(BFloat16));
  const int64_t most = least(shape.height, kCopyBytes / row > 1 ? kCopyBytes / row : 1);
  const int64_t parts = rounded_up(shape.height, most) / most;
  return rounded_up(shape.height, parts) / parts;
}

int64_t convolve_scratch(const TileConvolutionShape& shape, int64_t rows) {
  return Scratch(nullptr, Copy(shape, rows).pixels() * shape.in).pieces.taken();
}

}  // namespace

constinit const TileConvolution kTileConvolution = {.run = convolve, .rows = rows_of_part, .scratch = convolve_scratch};

}  // namespace ddpm::nn::cpu
