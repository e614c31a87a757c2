#include "cli/sample_noise.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/product.h"
#include "observe/npy.h"

namespace ddpm::cli {
namespace {

/// The elements of one image of an array [count, C, ...].
int64_t elements_of(const std::vector<int64_t>& shape) { return base::product_of(std::span(shape).subspan(1)); }

/// Checks the whole array before any work, since one value that is not finite spoils its whole picture.
void check_finite(observe::NpyReader& reader, const std::string& path, const std::vector<int64_t>& shape) {
  std::vector<float> values(static_cast<std::size_t>(elements_of(shape)));
  for (int64_t image = 0; image < shape[0]; ++image) {
    reader.read(image * std::ssize(values), values);
    const auto odd = std::find_if_not(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    if (odd == values.end()) continue;
    throw base::ConfigError("--initial-noise {}: value {} of image {} is {}; unit normal values are wanted", path,
                            odd - values.begin(), image, *odd);
  }
}

}  // namespace

denoise::NoiseSource noise_of_file(const std::string& path, const std::vector<int64_t>& shape,
                                   const nn::Partition& partition) {
  auto reader = std::make_shared<observe::NpyReader>(path);
  if (reader->shape() != shape) {
    throw base::ConfigError("--initial-noise {}: its shape is [{}]; [{}] (count, channels, {}height, width) is wanted",
                            path, fmt::join(reader->shape(), ", "), fmt::join(shape, ", "),
                            shape.size() == 5 ? "depth, " : "");
  }
  check_finite(*reader, path, shape);
  return [reader, shape, &partition](int64_t first, int64_t count) {
    const int64_t elements = elements_of(shape);
    at::Tensor noise = at::empty({count, shape[1], elements / shape[1] / shape.back(), shape.back()}, at::kFloat);
    reader->read(first * elements, {noise.mutable_data_ptr<float>(), static_cast<std::size_t>(noise.numel())});
    reader->expect_unchanged();
    return partition.cut(noise);
  };
}

}  // namespace ddpm::cli
