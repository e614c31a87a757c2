// Sizes of activations, and the floating-point operations that follow from them: pure arithmetic.
#pragma once

#include <cstdint>

namespace ddpm::nn {

/// By a factor of two in both directions.
enum class Resampling : uint8_t { none, down, up };

/// Pixels of an image or of an activation.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;

  [[nodiscard]] double pixels() const { return static_cast<double>(height) * static_cast<double>(width); }
  [[nodiscard]] ImageSize resampled(Resampling resampling) const {
    switch (resampling) {
      case Resampling::down:
        return {height / 2, width / 2};
      case Resampling::up:
        return {2 * height, 2 * width};
      case Resampling::none:
        break;
    }
    return *this;
  }
};

/// Floating-point operations of one image's forward pass: those of convolutions, linear layers and attention, where a
/// multiply-add counts as two. Layers count their own from their sizes, blocks add up those of their layers.
struct Operations {
  double all = 0.0;
  double attention = 0.0;  ///< the part of it in attention's two products of positions with positions

  Operations& operator+=(const Operations& other) {
    all += other.all;
    attention += other.attention;
    return *this;
  }
};

}  // namespace ddpm::nn
