// What two sets of pictures are compared by: numbers that tell what is in a picture, not where each pixel lies.
#pragma once

#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "data/field.h"

namespace ddpm::eval {

class FeatureMap {
 public:
  virtual ~FeatureMap() = default;
  /// The features of pictures, float32 [n, C, H, W] in [-1, 1]: float64 [n, D], all finite. Throws OutputError where
  /// they are not, or cannot be had. Its bits depend on which pictures stand together in a batch, so that batches are
  /// dealt without regard to the number of ranks.
  [[nodiscard]] virtual at::Tensor features(const at::Tensor& pictures) const = 0;
  /// What results call it.
  [[nodiscard]] virtual std::string name() const = 0;
};

/// The built-in map, a fixed one that has learned nothing, so that a distance by it is no FID. Of a picture at each of
/// up to 4 scales, halved by averaging as long as its sides have 4 pixels: two convolutions of 3 × 3 with zeros around,
/// to 24 and 16 channels, each followed by ReLU, then the means of the four quarters: 64 numbers for each scale. The
/// weights are normals of deviation √(2 / inputs), of a fixed seed; there are no biases. Random convolutions are known
/// to tell textures and shapes apart (Saxe et al., "On random weights and unsupervised feature learning", 2011).
std::unique_ptr<FeatureMap> random_convolutions(const data::ImageFormat& picture);

/// The values that an extractor wants for black and white.
struct PixelRange {
  double low = -1.0;
  double high = 1.0;
};

/// A network of one's own, a TorchScript file, which is code: see docs/security.md. It takes float32 [n, C, H, W]
/// within `range` and answers [n, D], or [n, D, 1, 1]. Throws OutputError for a file that cannot be loaded.
std::unique_ptr<FeatureMap> load_extractor(const base::Path& path, const PixelRange& range);

}  // namespace ddpm::eval
