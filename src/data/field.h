// The fields of a dataset: named arrays, each with a role. dataset.json lists them, and batches carry their values to
// the model in the list's order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace ddpm::data {

// Limits that no real set reaches; they keep every product far from overflow.
inline constexpr int64_t kMaxSide = int64_t{1} << 16;  ///< of an image
inline constexpr int64_t kMaxChannels = 4096;

/// What a field is to the model.
enum class FieldRole : uint8_t {
  image,   ///< what is learned: [height, width, channels] of uint8 or float32, read block by block
  labels,  ///< the number of the class: int64, held in memory
};
constexpr auto names_of(FieldRole /*type*/) { return std::to_array<std::string_view>({"image", "labels"}); }

/// "uint8", "float32", "int64": NumPy's name of a type that fields have.
std::string_view numpy_name(base::DType dtype);

/// One image as it is stored: channels-last, u8 or f32.
struct ImageFormat {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  base::DType dtype = base::DType::u8;

  [[nodiscard]] int64_t pixels() const { return height * width; }
  [[nodiscard]] int64_t elements() const { return height * width * channels; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements()) * base::size_of(dtype); }
  friend bool operator==(const ImageFormat&, const ImageFormat&) = default;
};

/// What the model sees: stored value · scale + offset. For uint8 it is x / 127.5 - 1, always.
struct Normalization {
  double scale = 1.0;
  double offset = 0.0;
  static Normalization of(base::DType dtype);  ///< the default of a stored type: float32 is left as it is
  friend bool operator==(const Normalization&, const Normalization&) = default;
};

/// What one channel of a field holds.
struct Variable {
  std::string name;
  std::string unit;         ///< "" where it is not known, or there is none
  Normalization transform;  ///< today the same for all variables of a field
  friend bool operator==(const Variable&, const Variable&) = default;
};

struct Field {
  std::string name;
  FieldRole role = FieldRole::image;
  std::string path;            ///< of the HDF5 dataset in each shard, [n, shape...]
  std::vector<int64_t> shape;  ///< of one image's values; empty: one number
  base::DType dtype = base::DType::u8;
  std::vector<Variable> variables;  ///< one for each channel; of labels there are none

  /// Bytes of one image's values.
  [[nodiscard]] std::size_t bytes() const;
  friend bool operator==(const Field&, const Field&) = default;
};

/// The list of a set that has images, /images, and perhaps labels, /labels. Its variables are "red", "green" and "blue"
/// of three uint8 channels, "grey" of one, and "channel 0" and so on of all others.
std::vector<Field> image_fields(const ImageFormat& format, const Normalization& normalization, bool has_labels);

}  // namespace ddpm::data
