#include "denoise/drawn_size.h"

#include <cstdint>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::denoise {

void expect_positions_of_whole_images(const LoadedModel& model) {
  const std::vector<int64_t> learned = model.image.whole_sides();
  const std::vector<int64_t> drawn = model.image.sides();
  const std::vector<int64_t> seen = nn::image_size(model.unet->config()).sides();  // by the model at once
  if (!model.image.positions || learned.empty() || drawn == learned || drawn != seen) return;
  throw base::ConfigError(
      "images of {}: the model was trained on windows of images of {}, and is given where in such an image each pixel "
      "lies; wanted: --size {}",
      fmt::join(drawn, " × "), fmt::join(learned, " × "), fmt::join(learned, "x"));
}

std::string positions_warning(const LoadedModel& model) {
  if (!model.image.positions) return "";
  const std::vector<int64_t> learned = model.image.whole_sides();
  const std::vector<int64_t> drawn = model.image.sides();
  if (learned.empty()) {
    return fmt::format(
        "the model is given where each pixel lies, and its record, which an older version of the program wrote, does "
        "not tell in images of which size it has learned that; images of {} are right if it was trained on such",
        fmt::join(drawn, " × "));
  }
  if (drawn == learned) return "";
  return fmt::format(
      "images of {}: the model is given where each pixel lies, and has learned that in images of {}, whose positions "
      "are others; wanted: --size {}",
      fmt::join(drawn, " × "), fmt::join(learned, " × "), fmt::join(learned, "x"));
}

}  // namespace ddpm::denoise
