// Going through the values of one field, image by image, to learn something of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "layout/range.h"

namespace ddpm::data {

/// A field's values as those of an image: of parameters, one pixel with a channel for each.
ImageFormat values_format(const Field& field);

struct ImageSweepOptions {
  int64_t most_images = 0;  ///< so many images at most, evenly spaced over the set; 0: all
  bool masks = true;        ///< whether the visitor is told which pixels of images are valid
  bool finite = true;       ///< whether an image with a value that is not finite cannot be used
};

class ImageSweep {
 public:
  /// Gets an image's values, channels last, and its mask, if there is one.
  using Visitor = std::function<void(std::span<const std::byte> values, std::span<const std::byte> valid)>;

  /// `field` is a place in dataset.info().fields, of a field with variables.
  ImageSweep(const Dataset& dataset, std::size_t field, const ImageSweepOptions& options);

  [[nodiscard]] const ImageFormat& format() const { return format_; }
  /// How many images there are to visit; one of a field that all images share.
  [[nodiscard]] int64_t images() const { return images_; }
  /// How many are read at once.
  [[nodiscard]] int64_t block() const { return block_; }

  /// Visits those of images [images.begin, images.end) that can be used, in their order; `done` is told how many images
  /// of each block were read. What is wrong with an image (ImageError) is noted, any other failure throws.
  void visit(layout::Range images, const Visitor& visitor, const std::function<void(int64_t)>& done);

  /// Images that are damaged, or hold values that are not finite where that is asked for.
  [[nodiscard]] int64_t unusable() const { return unusable_; }
  /// What is wrong with the first kMostNamed of them.
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }
  static constexpr std::size_t kMostNamed = 5;

 private:
  [[nodiscard]] const Field& field() const { return dataset_.info().fields[field_]; }
  [[nodiscard]] bool whole() const { return images_ == dataset_.size(); }
  [[nodiscard]] int64_t image(int64_t i) const;
  [[nodiscard]] std::span<const std::byte> held(int64_t i) const;
  [[nodiscard]] std::span<const std::byte> mask(std::size_t image) const;
  bool read(int64_t first, int64_t count, bool note = false);
  void read_masks(int64_t first, int64_t count);
  void visit_block(int64_t first, int64_t count, const Visitor& visitor);
  void hand_over(int64_t count, const Visitor& visitor) const;

  const Dataset& dataset_;
  std::size_t field_;
  std::size_t mask_;  // its place in the list of fields; the list's end without one
  bool finite_;
  ImageFormat format_;
  int64_t images_ = 0;
  int64_t block_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> masks_;
  int64_t unusable_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace ddpm::data
