// What a model must remember of the images it was trained on: their size (with data.patch that of the windows), type,
// normalization and classes. It is part of every checkpoint's state, and of RUN/model as normalization.json and
// class_names.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/dataset_options.h"
#include "data/format.h"
#include "denoise/recorded_mask.h"

namespace ddpm::denoise {

struct ImageRecord {
  int64_t height = 0;
  int64_t width = 0;
  base::DType dtype = base::DType::u8;
  data::Normalization normalization = data::Normalization::of(base::DType::u8);
  std::vector<std::string> class_names = {};  ///< names of labels 0, 1, ...; empty: no labels, or no names
  std::vector<data::Field> fields = {};       ///< with their transforms; empty: images of the one map, perhaps labels
  bool positions = false;                     ///< the model is given where each pixel lies
  int64_t depth = 0;                          ///< layers of a volume; 0 for flat images
  /// For each axis: the images of which the model saw windows continue with their other side, as larger ones will that
  /// are drawn window by window. Empty: along no axis.
  std::vector<bool> wraps = {};
  data::DatasetOptions reading = {};  ///< how foreign files are read; without variables: a set of this program's kind
  /// Names and units of the images' variables, without transforms. Empty: `fields` has them, or they are those that
  /// data::image_fields() gives, or an older version of the program, which kept none, wrote the record.
  std::vector<data::Variable> names = {};
  /// Name of the labels' array in the .h5 files of a set of which `fields` is empty; empty: DatasetOptions' own.
  std::string labels = {};
  /// Sides of the whole images where the model is given positions in them, or saw windows, and `fields` is empty;
  /// empty: `fields` tells them, images are not cut, or an older version of the program wrote the record.
  std::vector<int64_t> whole = {};
  /// The mask that all images of the set share, of whole images. Empty: there is none, or an older version wrote the
  /// record.
  RecordedMask mask = {};

  /// Height and width, of volumes with the depth before.
  [[nodiscard]] std::vector<int64_t> sides() const { return format(1, dtype).sides(); }
  /// Sides of the whole images of the training set; empty: the record does not tell them.
  [[nodiscard]] std::vector<int64_t> whole_sides() const;
  /// One image of so many channels.
  [[nodiscard]] data::ImageFormat format(int64_t channels, base::DType stored) const {
    return {.height = height, .width = width, .channels = channels, .dtype = stored, .depth = depth};
  }

  /// Whether the model is given positions in whole images, and those of `other` are known to be of other sides, so that
  /// its pixels lie elsewhere.
  [[nodiscard]] bool has_other_places(const ImageRecord& other) const;
  /// Whether `names` and those of `other` are known and differ.
  [[nodiscard]] bool has_other_names(const ImageRecord& other) const;
  /// Whether images and fields are of the same kind, from whatever files they come, as far as both records tell:
  /// has_other_places() and has_other_names() are false. `labels` and `mask` are not compared.
  [[nodiscard]] bool is_like(const ImageRecord& other) const;
  /// The transform of each of the images' `channels`.
  [[nodiscard]] std::vector<data::Transform> transforms(int64_t channels) const;
  /// Gives the variables of a field of such images the names and units that are recorded, if there are any.
  void name_variables(std::vector<data::Variable>& variables) const;
  /// {"dtype": "uint8", "scale": …, "offset": …}, and "fields", "positions" and "wraps" where there are such.
  [[nodiscard]] base::Json normalization_json() const;
  /// normalization.json of a model's folder: the same, "files" of foreign ones (file_reading.h), "variables", which are
  /// the names, "labels", "whole" and "mask".
  [[nodiscard]] base::Json record_json() const;
  /// The reverse of record_json(); throws OutputError that names `origin`.
  void set_normalization(const base::Json& json, const std::string& origin);
  friend bool operator==(const ImageRecord&, const ImageRecord&) = default;
};

/// The scalars under which a checkpoint's state holds it (class names as the text of a JSON array, which older
/// checkpoints lack), and back. Sides are 1 to data::kMaxSide, the numbers of the
/// normalization such as float32 holds; reading anything else throws OutputError, which begins with `origin`.
void write_image_record(const ImageRecord& image, base::Json& state);
/// Whether the state holds them: a user's own model has none.
bool holds_image_record(const base::Json& state);
ImageRecord read_image_record(const base::Json& state, const std::string& origin);

}  // namespace ddpm::denoise
