// What a model sees of a set's fields: from stored values to the channels that stand beside the noisy images.
//
// Input channels are, in this order: noisy image, condition, static values, positions. Positions are sin and cos of
// 2π · row / height, then of 2π · column / width; of volumes those of 2π · layer / depth come first. The layers of a
// volume lie one below the other: everywhere here H = depth · height.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/dataset.h"
#include "denoise/augmentation.h"
#include "denoise/batch.h"
#include "denoise/grid_map.h"
#include "denoise/point_map.h"
#include "denoise/turns.h"
#include "denoise/windows.h"

namespace ddpm::denoise {

/// How many numbers of each kind the model takes for an image.
struct InputCounts {
  int64_t image = 0;  ///< channels, as the others but the last
  int64_t condition = 0;
  int64_t static_values = 0;
  int64_t positions = 0;
  int64_t parameters = 0;

  static InputCounts of(const std::vector<data::Field>& fields, bool positions);
  [[nodiscard]] int64_t channels() const { return image + condition + static_values + positions; }
  /// "image 2 + condition 3 + static 1 + positions 4", without what there is none of.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const InputCounts&, const InputCounts&) = default;
};

/// Makes model batches of stored ones. What all images share is on the device once.
class ModelInputs {
 public:
  /// Takes fields, transforms and the values of set_fields() from `dataset`. `windows` are cut out of its images,
  /// unless a batch holds them already, and out of all that lies beside them. The components of `vectors` turn with
  /// their image.
  ModelInputs(const data::Dataset& dataset, bool positions, at::Device device, Windows windows = {},
              const std::vector<Vector>& vectors = {});
  /// For fields that need nothing of a set but their values.
  ModelInputs(std::vector<data::Field> fields, at::Device device, bool positions = false);

  /// Each field's values where its role belongs, normalised. Waits for no device. Where a mask is 0, x0 is 0.
  [[nodiscard]] ModelBatch batch(const StoredBatch& stored, const std::optional<Augmentation>& augmentation) const;

 private:
  class View;

  /// The transforms of a field's variables, on the device.
  struct Maps {
    data::Normalization common;  ///< the transform of all variables, unless `each` is set
    bool each = false;
    at::Tensor scale;      ///< [variables]
    at::Tensor offset;     ///< [variables]
    at::Tensor logarithm;  ///< bool [variables]: whether the logarithm is taken; undefined: never
    std::vector<std::pair<int64_t, PointMap>> points = {};  ///< variables mapped by points: number and map
    std::vector<std::pair<int64_t, GridMap>> grids = {};    ///< likewise by grids
  };
  [[nodiscard]] Maps maps_of(const data::Field& field) const;
  [[nodiscard]] at::Tensor values_of_set(const data::Dataset& dataset, std::size_t field) const;
  /// One array for all images, which is given with each of them.
  struct Shared {
    at::Tensor stored;  // [1, h, w, c]
    Maps maps;
    Components components;
  };
  [[nodiscard]] at::Tensor image_like(const at::Tensor& stored, const Maps& maps, const View& view) const;
  [[nodiscard]] at::Tensor condition_channels(const StoredBatch& batch, const at::Tensor& stored, std::size_t field,
                                              const View& view) const;
  [[nodiscard]] static at::Tensor valid(const at::Tensor& masks, const View& view, int64_t n);
  void share(std::vector<at::Tensor> values, bool positions);
  [[nodiscard]] at::Tensor beside(const StoredBatch& batch, const at::Tensor& condition, const View& view) const;

  std::vector<data::Field> fields_;     // fields that each image has of its own
  std::vector<Maps> maps_;              // one for each of fields_
  std::vector<Components> components_;  // one for each of fields_
  std::vector<Shared> with_vectors_;    // static values, where data.vectors is set; otherwise they are in shared_
  bool has_vectors_ = false;
  at::Device device_;
  Windows windows_;
  data::ImageFormat image_;  // size of a whole image
  at::Tensor shared_;        // float32 [h, w, c]: static values, and positions where nothing is cut; undefined: none
  std::vector<at::Tensor> positions_;  // one for each axis, where windows are cut and the model is given positions
  at::Tensor mask_;                    // uint8 [h, w], the one mask of a set; undefined: none
};

/// Noisy images and what stands beside them, in the type of the images: the model's input.
at::Tensor model_input(const at::Tensor& noisy, const at::Tensor& channels_beside);

}  // namespace ddpm::denoise
