#include "denoise/sample_mask.h"

#include <algorithm>
#include <cstddef>

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

namespace ddpm::denoise {
namespace {

using data::FieldRole;

/// The mask that the model learned with, or null.
const data::Field* mask_of(const ImageRecord& image) { return field_of(image.fields, FieldRole::mask); }

const data::Field* offered_mask(const data::Dataset* given) {
  return given == nullptr ? nullptr : field_of(given->info().fields, FieldRole::mask);
}

/// Whether the mask of a set is the one that the model has.
bool is_that_of_model(const RecordedMask& mask, const data::Dataset& given) {
  const std::vector<data::Field>& fields = given.set_fields();
  const data::Field* found = field_of(fields, FieldRole::mask);
  if (found == nullptr) return false;
  const auto values = given.set_values(static_cast<std::size_t>(found - fields.data()));
  return std::ranges::equal(values, mask.valid,
                            [](std::byte value, bool valid) { return (value != std::byte{0}) == valid; });
}

/// What the model learned, and why it has not got it.
std::string learned_mask(const ImageRecord& image, const data::Field& learned) {
  if (!learned.per_set) return "masks of its images";
  if (image.mask.empty()) return "a mask, which an older version did not record";
  return fmt::format("a mask of {}, not of {}", fmt::join(image.mask.sides, " × "), fmt::join(image.sides(), " × "));
}

}  // namespace

MaskSource mask_source(const ImageRecord& image) {
  if (!image.mask.empty() && image.mask.sides == image.sides()) return MaskSource::model;
  return mask_of(image) != nullptr ? MaskSource::given : MaskSource::nobody;
}

at::Tensor mask_of_model(const ImageRecord& image, at::Device device) {
  if (mask_source(image) != MaskSource::model) return {};
  const RecordedMask& mask = image.mask;
  const at::Tensor pixels = at::empty({std::ssize(mask.valid)}, at::kBool);
  std::ranges::copy(mask.valid, pixels.data_ptr<bool>());
  return pixels.view({1, 1, -1, mask.sides.back()}).to(device);
}

bool gives_masks(const ImageRecord& image, const data::Dataset* given) {
  return mask_source(image) == MaskSource::given && offered_mask(given) != nullptr;
}

std::string mask_to_read(const ImageRecord& image) {
  if (mask_source(image) != MaskSource::given) return "";
  return mask_of(image)->path;
}

std::string mask_warning(const ImageRecord& image, const data::Dataset* given) {
  const data::Field* offered = offered_mask(given);
  switch (mask_source(image)) {
    case MaskSource::nobody:
      if (offered == nullptr) return "";
      return fmt::format("{}: its masks are left: the model was trained without any, and draws values everywhere",
                         given->path().string());
    case MaskSource::model:
      if (offered == nullptr || is_that_of_model(image.mask, *given)) return "";
      return fmt::format(
          "{}: its masks are left: the one that all images of the training set shared belongs to the model",
          given->path().string());
    case MaskSource::given:
      break;
  }
  if (offered != nullptr) return "";
  const data::Field& learned = *mask_of(image);
  return fmt::format(
      "the model was trained with {}{}; images are drawn as if they had values everywhere; wanted: as --condition a "
      "set whose masks they have",
      learned_mask(image, learned), given == nullptr ? "" : fmt::format(", and {} gives none", given->path().string()));
}

}  // namespace ddpm::denoise
