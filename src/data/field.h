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
#include "data/transform.h"

namespace ddpm::data {

// Limits that no real set reaches; they keep every product far from overflow.
inline constexpr int64_t kMaxSide = int64_t{1} << 16;  ///< pixels along one side of an image
inline constexpr int64_t kMaxChannels = 4096;
inline constexpr std::size_t kMaxNameBytes = 255;  ///< bytes in the name of a file, field or variable in dataset.json

/// What a field is to the model.
enum class FieldRole : uint8_t {
  image,          ///< what is learned: [height, width, channels] of uint8 or float32, of volumes with the depth before,
                  ///< read block by block
  labels,         ///< the number of the class: int64, held in memory
  condition,      ///< what the image is drawn given: as an image, of the same or a coarser grid, read block by block
  static_values,  ///< given with every image of the set: one array like an image, held in memory
  parameters,     ///< numbers given with each image: float32, held in memory
  mask,           ///< 1 where a pixel is valid and 0 elsewhere: uint8, of each image or one of the set
};
constexpr auto names_of(FieldRole /*type*/) {
  return std::to_array<std::string_view>({"image", "labels", "condition", "static", "parameters", "mask"});
}

// What holds of a role whatever file its values come from.

/// Whether its values are pixels with channels, on the images' own grid or a coarser one.
bool is_like_image(FieldRole role);
/// Whether its values have names: those of channels, or of parameters.
bool has_variables(FieldRole role);
/// Whether an array of so many axes beside images of so many sides, 2 or 3, is one of the whole set.
bool is_per_set(FieldRole role, std::size_t axes, std::size_t sides);
/// The type of its values; pictures like images may be of uint8 instead.
base::DType number_type(FieldRole role);
/// The array of its values in files of which nothing says another name: kImagesPath, kLabelsPath, "/condition".
std::string array_path(FieldRole role);
inline constexpr const char* kImagesPath = "/images";
inline constexpr const char* kLabelsPath = "/labels";

/// "uint8", "float32", "int64": NumPy's name of a type that fields have.
std::string_view numpy_name(base::DType dtype);

/// One image as it is stored: channels-last, u8 or f32.
struct ImageFormat {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  base::DType dtype = base::DType::u8;
  int64_t depth = 0;  ///< layers of a volume, which lie one after the other; 0 for flat images

  /// The image of a shape [height, width, channels] or [depth, height, width, channels].
  static ImageFormat of(const std::vector<int64_t>& shape, base::DType dtype);
  [[nodiscard]] std::vector<int64_t> shape() const;
  /// Height and width, of volumes with the depth before.
  [[nodiscard]] std::vector<int64_t> sides() const;
  /// The rows of all layers.
  [[nodiscard]] int64_t rows() const { return depth == 0 ? height : depth * height; }
  [[nodiscard]] int64_t pixels() const { return rows() * width; }
  [[nodiscard]] int64_t elements() const { return pixels() * channels; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements()) * base::size_of(dtype); }
  friend bool operator==(const ImageFormat&, const ImageFormat&) = default;
};

/// "32 × 48" (height × width), of volumes with the depth before.
std::string size_text(const ImageFormat& format);

/// What one channel of a field holds.
struct Variable {
  std::string name;
  std::string unit;     ///< "" where it is not known, or there is none
  Transform transform;  ///< how stored values become those that the model sees; for uint8 images always x / 127.5 - 1
  friend bool operator==(const Variable&, const Variable&) = default;
};

struct Field {
  std::string name;
  FieldRole role = FieldRole::image;
  std::string path;            ///< the HDF5 dataset in each shard: [n, shape...]; [shape...] if it is per set
  std::vector<int64_t> shape;  ///< shape of one image's values; empty: one number
  base::DType dtype = base::DType::u8;
  std::vector<Variable> variables;  ///< one for each channel or parameter; none for labels and masks
  bool per_set = false;             ///< one array for all images, which lies in the first shard

  /// Bytes of one image's values.
  [[nodiscard]] std::size_t bytes() const;
  /// Whether its values are read from the files block by block: images, conditions, and masks of each image.
  [[nodiscard]] bool is_read_in_blocks() const;
  /// Its values as those of an image; a mask has one channel.
  [[nodiscard]] ImageFormat format() const;
  /// The map of all variables where they have the same one and it is affine; otherwise the one that changes nothing.
  [[nodiscard]] Normalization common_map() const;
  friend bool operator==(const Field&, const Field&) = default;
};

/// The first field of a role, or null.
const Field* field_of(const std::vector<Field>& fields, FieldRole role);

/// The field of a role as HDF5 shows it: its shape without the axis of images. It has a variable for each channel or
/// parameter, as image_fields() names them.
Field make_field(FieldRole role, std::string path, std::vector<int64_t> shape, base::DType dtype, bool per_set);

/// The list of a set that has images, /images, and perhaps labels, /labels. Its variables are "red", "green" and "blue"
/// of three uint8 channels, "grey" of one, and "channel 0" and so on of all others.
std::vector<Field> image_fields(const ImageFormat& format, const Normalization& normalization, bool has_labels);

/// Throws DatasetError unless shape, type and variables of a field are those of its role. `where` begins the message.
void expect_usable(const Field& field, const std::string& where);
/// Throws DatasetError unless the fields fit the images among them: a condition has the same grid or one that is
/// coarser by a whole number, static values and masks have the same.
void expect_fitting(const std::vector<Field>& fields, const std::string& where);

}  // namespace ddpm::data
