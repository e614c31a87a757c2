// The order of work for operations that look at an image twice: first for its sums, then with them.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>

namespace ddpm::nn::cpu {

/// A batch of channels-last images, cut into slabs of whole pixels. Sums are taken per slab and then added in order;
/// the cut follows from the shape alone, so their bits do too.
class Slabs {
 public:
  Slabs(int64_t images, int64_t pixels, int64_t channels)
      : images_(images), pixels_(pixels), slab_(std::max<int64_t>(1, kElements / channels / kPixels) * kPixels) {}

  [[nodiscard]] int64_t images() const { return images_; }
  [[nodiscard]] int64_t per_image() const { return (pixels_ + slab_ - 1) / slab_; }
  [[nodiscard]] int64_t first_pixel(int64_t slab) const { return slab * slab_; }
  [[nodiscard]] int64_t pixels(int64_t slab) const { return std::min(slab_, pixels_ - first_pixel(slab)); }

 private:
  static constexpr int64_t kElements = 32768;  // 128 KiB of float32: several slabs in a core's cache
  static constexpr int64_t kPixels = 32;

  int64_t images_;
  int64_t pixels_;
  int64_t slab_;
};

/// For each image: pass.begin(image), pass.first(image, slab) for its slabs, pass.middle(image), pass.second(image,
/// slab) for its slabs. A thread takes whole images, which it finds in its cache the second time, unless the batch is
/// too small to keep all threads busy with them; then they share an image's slabs.
template <typename Pass>
void run_two_passes(const Slabs& slabs, Pass& pass) {
  const int64_t images = slabs.images();
  const int64_t count = slabs.per_image();
  const int64_t threads = at::get_num_threads();
  if (count == 1 || images % threads == 0 || images >= 4 * threads) {
    at::parallel_for(0, images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image) {
        pass.begin(image);
        for (int64_t slab = 0; slab < count; ++slab) pass.first(image, slab);
        pass.middle(image);
        for (int64_t slab = 0; slab < count; ++slab) pass.second(image, slab);
      }
    });
    return;
  }
  for (int64_t image = 0; image < images; ++image) {
    pass.begin(image);
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slab = begin; slab < end; ++slab) pass.first(image, slab);
    });
    pass.middle(image);
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slab = begin; slab < end; ++slab) pass.second(image, slab);
    });
  }
}

/// Runs both passes where the images' sums meet those of other ranks: `between` is called once, after all first passes.
template <typename Pass, typename Between>
void run_two_passes(const Slabs& slabs, Pass& pass, const Between& between) {
  const int64_t count = slabs.per_image();
  for (int64_t image = 0; image < slabs.images(); ++image) {
    pass.begin(image);
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slab = begin; slab < end; ++slab) pass.first(image, slab);
    });
  }
  between();
  for (int64_t image = 0; image < slabs.images(); ++image) {
    pass.middle(image);
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slab = begin; slab < end; ++slab) pass.second(image, slab);
    });
  }
}

}  // namespace ddpm::nn::cpu
