// Sizes of activations, and the floating-point operations that follow from them: pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

namespace ddpm::nn {

/// By a factor of two along each axis.
enum class Resampling : uint8_t { none, down, up };

/// Pixels of an image or of an activation.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  int64_t depth = 0;  ///< layers of a volume; 0 for flat images

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
  /// Height and width, of volumes with the depth before.
  [[nodiscard]] std::vector<int64_t> sides() const {
    return depth == 0 ? std::vector{height, width} : std::vector{depth, height, width};
  }
  /// The rows of all layers.
  [[nodiscard]] int64_t rows() const { return depth == 0 ? height : depth * height; }
  [[nodiscard]] double pixels() const { return static_cast<double>(rows()) * static_cast<double>(width); }
  [[nodiscard]] ImageSize resampled(Resampling resampling) const {
    switch (resampling) {
      case Resampling::down:
        return {height / 2, width / 2, depth / 2};
      case Resampling::up:
        return {2 * height, 2 * width, 2 * depth};
      case Resampling::none:
        break;
    }
    return *this;
  }
};

/// Floating-point operations of one image: those of convolutions, linear layers and attention, where a multiply-add
/// counts as two. Layers count their own from their sizes, blocks add up those of their layers.
///
/// Backward computes one product as large as forward's for the gradient of each operand: of a layer's input and its
/// weight, where that is trained, and of both sides of attention's products. That is twice forward, but for weights
/// beside adapters, which have no gradient.
struct Operations {
  double all = 0.0;        ///< operations of the forward pass
  double attention = 0.0;  ///< the part of it in attention's two products of positions with positions
  double backward = 0.0;   ///< operations of the backward pass

  Operations& operator+=(const Operations& other) {
    all += other.all;
    attention += other.attention;
    backward += other.backward;
    return *this;
  }
};

}  // namespace ddpm::nn
