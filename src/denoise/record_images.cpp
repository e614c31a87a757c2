#include "denoise/record_images.h"

#include <cstddef>

namespace ddpm::denoise {
namespace {

/// The names of images of one map, of which the record has no field; none where every such set has them.
std::vector<data::Variable> names_of(const data::DatasetInfo& info) {
  const auto plain = data::image_fields(info.image(), info.normalization(), /*has_labels=*/false);
  std::vector<data::Variable> names = info.image_field().variables;
  if (!info.has_images_of_one_map() || names == plain.front().variables) return {};
  for (data::Variable& variable : names) variable.transform = {};
  return names;
}

/// Where a file of such images has their labels, if not under the usual name; the record has no field of them either.
std::string labels_of(const data::Dataset& dataset) {
  const data::DatasetInfo& info = dataset.info();
  if (!info.has_images_of_one_map() || !info.has_labels() || !dataset.reading().variables.empty()) return "";
  const std::string& path = info.fields.at(info.find(data::FieldRole::labels)).path;
  return path == data::DatasetOptions{}.labels ? "" : path;
}

/// The sides of whole images, where the record has no field that tells them and they matter.
std::vector<int64_t> whole_sides(const data::DatasetInfo& info, bool positions, const Patch& patch) {
  if (!info.has_images_of_one_map() || (!positions && !patch.cuts())) return {};
  return patch.whole.sides();
}

/// The mask that all images of the set share.
RecordedMask mask_of(const data::Dataset& dataset) {
  RecordedMask mask;
  for (std::size_t f = 0; f < dataset.set_fields().size(); ++f) {
    if (dataset.set_fields()[f].role != data::FieldRole::mask) continue;
    mask.sides = dataset.image().sides();
    for (const std::byte value : dataset.set_values(f)) mask.valid.push_back(value != std::byte{0});
  }
  return mask;
}

}  // namespace

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
          dataset.reading(),
          names_of(info),
          labels_of(dataset),
          whole_sides(info, positions, patch),
          mask_of(dataset)};
}

}  // namespace ddpm::denoise
