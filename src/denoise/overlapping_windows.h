// Images that are larger than those the model was trained on: at each step of the sampler windows of the model's size,
// which overlap and cover the image, are answered one by one, and the answers are averaged (Bar-Tal et al.,
// "MultiDiffusion", 2023). The sampler sees one denoiser of the whole image.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "denoise/loaded_model.h"
#include "denoise/sample_inputs.h"
#include "layout/range.h"

namespace ddpm::denoise {

/// Where the windows begin along an axis: as few as overlap by `overlap` pixels or more, spread evenly. They cover the
/// axis from its first pixel to its last; where it wraps, the ring, on which two or more are needed unless they need
/// not overlap. 0 <= overlap < window <= side.
std::vector<int64_t> window_starts(int64_t side, int64_t window, int64_t overlap, bool wraps);

/// Has `model` draw images of `sides` in place of those it was trained on, and returns the overlap of their windows:
/// `overlap`, or a quarter of the window's shortest side that is shorter than the image's. Throws ConfigError for sides
/// that the model cannot draw, and for windows that overlap whole.
int64_t set_image_size(LoadedModel& model, const std::vector<int64_t>& sides, std::optional<int64_t> overlap);

/// Throws ConfigError, which begins with `option`, where another network that answers the windows of the images of
/// `model`, after set_image_size(), would continue them with their own other side. It takes windows of the same size.
void expect_cut_by_windows(const LoadedModel& model, const nn::UNet2DConfig& other, const std::string& option);

class OverlappingWindows {
 public:
  /// The windows of the images of `model`, after set_image_size().
  OverlappingWindows(const LoadedModel& model, int64_t overlap, at::Device device);

  [[nodiscard]] int64_t count() const { return pixels_.size(0); }
  /// `windows` of each of n images: values [n, C, H, W] become [n · windows.size(), C, h, w], image by image. An
  /// undefined tensor stays one.
  [[nodiscard]] at::Tensor cut(const at::Tensor& values, layout::Range windows) const;
  /// What is given with the images, for their windows.
  [[nodiscard]] Given cut(const Given& given, layout::Range windows) const;
  /// Answers float32 [n · windows.size(), C, h, w] for windows of n images.
  using Answer = std::function<at::Tensor(layout::Range windows)>;
  /// The mean of the answers at each pixel, float32 [n, C, H, W], asked for `at_once` windows of an image at a time.
  [[nodiscard]] at::Tensor mean(int64_t n, int64_t at_once, const Answer& answer) const;

 private:
  at::Tensor pixels_;  // int64 [count, h · w]: places in the image, whose rows follow each other
  at::Tensor covers_;  // float32 [H · W, 1]: how many windows hold a pixel
  int64_t rows_;       // H of an image: of volumes the rows of all layers
  int64_t window_rows_;
};

}  // namespace ddpm::denoise
