#include "data/image_sweep.h"

#include <algorithm>

namespace ddpm::data {
namespace {

constexpr int64_t kSweepBytes = int64_t{4} << 20;

}  // namespace

ImageFormat values_format(const Field& field) {
  if (field.role != FieldRole::parameters) return field.format();
  return {.height = 1, .width = 1, .channels = field.shape.front(), .dtype = field.dtype};
}

ImageSweep::ImageSweep(const Dataset& dataset, std::size_t field, const ImageSweepOptions& options)
    : dataset_(dataset),
      field_(field),
      mask_(dataset.info().fields.size()),
      finite_(options.finite),
      format_(values_format(dataset.info().fields.at(field))) {
  if (options.masks && this->field().role == FieldRole::image) mask_ = dataset.info().find(FieldRole::mask);
  const int64_t all = dataset.size();
  images_ = options.most_images > 0 ? std::min(options.most_images, all) : all;
  if (this->field().per_set) images_ = 1;
  block_ = std::max<int64_t>(1, kSweepBytes / static_cast<int64_t>(format_.bytes()));
}

/// The image of the set that image `i` of the sweep is. It does not overflow: a sample is small.
int64_t ImageSweep::image(int64_t i) const { return whole() ? i : i * dataset_.size() / images_; }

void ImageSweep::visit(layout::Range images, const Visitor& visitor, const std::function<void(int64_t)>& done) {
  for (int64_t first = images.begin; first < images.end; first += block_) {
    const int64_t count = std::min(block_, images.end - first);
    if (field().is_read_in_blocks()) {
      visit_block(first, count, visitor);
    } else {
      for (int64_t i = first; i < first + count; ++i) visitor(held(i), {});
    }
    if (done) done(count);
  }
}

std::span<const std::byte> ImageSweep::held(int64_t i) const {
  if (field().per_set) return dataset_.set_values(field_ - dataset_.fields().size());
  return dataset_.held_values(field_).subspan(static_cast<std::size_t>(image(i)) * format_.bytes(), format_.bytes());
}

/// One read where that succeeds, otherwise one for each image, so that the others still count.
void ImageSweep::visit_block(int64_t first, int64_t count, const Visitor& visitor) {
  if (whole() && read(first, count)) {
    hand_over(count, visitor);
  } else {
    for (int64_t i = first; i < first + count; ++i) {
      if (read(image(i), 1, /*note=*/true)) hand_over(1, visitor);
    }
  }
  dataset_.expect_unchanged();
}

bool ImageSweep::read(int64_t first, int64_t count, bool note) {
  buffer_.resize(static_cast<std::size_t>(count) * format_.bytes());
  try {
    if (finite_) {
      dataset_.read_unconfirmed(field_, first, count, buffer_);
    } else {
      dataset_.read_any_values(field_, first, count, buffer_);
    }
    read_masks(first, count);
    return true;
  } catch (const ImageError& error) {
    if (!note) return false;
    ++unusable_;
    if (faults_.size() < kMostNamed) faults_.emplace_back(error.what());
    return false;
  }
}

void ImageSweep::read_masks(int64_t first, int64_t count) {
  const bool each_has_one = mask_ < dataset_.fields().size();
  if (!each_has_one) return;
  masks_.resize(static_cast<std::size_t>(count * format_.pixels()));
  dataset_.read_unconfirmed(mask_, first, count, masks_);
}

std::span<const std::byte> ImageSweep::mask(std::size_t image) const {
  const auto pixels = static_cast<std::size_t>(format_.pixels());
  if (mask_ == dataset_.info().fields.size()) return {};
  if (mask_ >= dataset_.fields().size()) return dataset_.set_values(mask_ - dataset_.fields().size());
  return std::span(masks_).subspan(image * pixels, pixels);
}

void ImageSweep::hand_over(int64_t count, const Visitor& visitor) const {
  const std::size_t bytes = format_.bytes();
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    visitor(std::span(buffer_).subspan(i * bytes, bytes), mask(i));
  }
}

}  // namespace ddpm::data
