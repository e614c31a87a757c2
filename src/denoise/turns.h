// How the images of a batch are mirrored and turned while a model is trained, and vectors with them.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/config.h"
#include "data/dataset.h"
#include "data/field.h"
#include "denoise/augmentation.h"
#include "layout/range.h"

namespace ddpm::denoise {

/// A variable that is a component of a vector.
struct Component {
  std::string name;
  bool against = false;  ///< it points against growing columns or rows
};

/// A vector in the plane of the image, such as a wind. It is found in each field that has both variables.
struct Vector {
  Component along_width;
  Component along_height;
};

/// The vectors of data.vectors: "u, -v" each, or "images/u, images/v" of one field alone. Throws ConfigError.
std::vector<Vector> vectors_of(const std::vector<std::string>& texts);

/// Throws ConfigError for what data asks of images `window` and the set's variables and they cannot: quarter turns of
/// images that are not square, and vectors of variables that there are not, or that are not float32.
void expect_turnable(const data::DataConfig& data, const data::DatasetInfo& info, const data::ImageFormat& window);

/// Throws ConfigError for a vector one of whose variables is mapped by a grid: its means belong to places, and are no
/// vectors that turn with it.
void expect_no_grids(const std::vector<Vector>& vectors, const std::vector<data::Field>& fields);

/// What has been drawn for each image of a batch. The image that is seen has the pixel (row, column) of the stored one
/// that is found by exchanging row and column where `transposed`, and then counting rows or columns from the other end.
/// How images are turned; all layers of a volume alike.
struct Turns {
  at::Tensor transposed;        ///< bool [n]
  at::Tensor rows_reversed;     ///< bool [n]
  at::Tensor columns_reversed;  ///< bool [n]

  /// Pure functions of (seed, step, position in the global batch). Nothing waits for the device of `step`.
  static Turns draw(const Augmentation& augmentation, const at::Tensor& step, layout::Range positions);
  /// From places in stored images, int64 [m, rows, width] with m = n or 1 and rows those of whole layers of `height`,
  /// those of the images that are seen: [n, rows, width].
  [[nodiscard]] at::Tensor pixels(const at::Tensor& stored, int64_t height) const;
};

/// The components of vectors among a field's variables.
class Components {
 public:
  Components(const data::Field& field, const std::vector<Vector>& vectors, at::Device device);

  [[nodiscard]] bool any() const { return partner_.defined(); }
  /// Stored values [n, ..., c] of turned images: components change signs and places. The values themselves are kept,
  /// so that this commutes with every map of pixels.
  [[nodiscard]] at::Tensor turned(const at::Tensor& values, const Turns& turns) const;

 private:
  at::Tensor along_height_;   // bool [c]
  at::Tensor along_width_;    // bool [c]
  at::Tensor partner_;        // int64 [c]: the other component of the same vector, or the variable itself
  at::Tensor exchange_sign_;  // float32 [c]: -1 where one of both points against the axis and the other along
};

}  // namespace ddpm::denoise
