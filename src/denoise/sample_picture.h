// Samples as one picture, whatever they are samples of.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "denoise/image_record.h"
#include "denoise/image_values.h"
#include "observe/image_grid.h"

namespace ddpm::denoise {

/// Values that have the first and the last colour.
struct ColourRange {
  float low = -3.0F;
  float high = 3.0F;
};

/// How samples are drawn: pictures in their own grey or colours; other values as a field, each channel by itself in
/// colours. Of volumes the middle layer is drawn.
class SamplePicture {
 public:
  /// `values` are those of the training set, where they are known: a channel's colours reach from its least to its
  /// greatest value, at most three deviations around the mean.
  SamplePicture(const ImageRecord& image, int64_t channels, const std::optional<ImageValues>& values);

  /// The grid of samples [n, C, H, W] (of volumes H = depth · height), float32 on the host. `columns` samples, and 0 is
  /// as many as make it square, stand side by side; of a field each is its channels side by side.
  [[nodiscard]] observe::Image draw(const at::Tensor& samples, int64_t columns) const;

 private:
  [[nodiscard]] observe::Image draw_field(const at::Tensor& layers, int64_t columns) const;

  int64_t height_;
  int64_t depth_;
  bool is_picture_;
  std::vector<ColourRange> ranges_;  // colours of each channel
};

}  // namespace ddpm::denoise
