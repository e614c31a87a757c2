#include "denoise/record_images.h"

namespace ddpm::denoise {

ImageRecord record_images(const data::Dataset& dataset, bool positions, const Patch& patch) {
  const data::DatasetInfo& info = dataset.info();
  const data::ImageFormat& stored = patch.window;
  return {stored.height,
          stored.width,
          stored.dtype,
          info.normalization(),
          dataset.labels().empty() ? std::vector<std::string>{} : info.class_names,
          info.has_images_of_one_map() ? std::vector<data::Field>{} : info.fields,
          positions,
          stored.depth,
          patch.wraps,
          dataset.reading()};
}

}  // namespace ddpm::denoise
