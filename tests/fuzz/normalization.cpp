// ImageRecord::set_normalization on a normalization.json: what is accepted can be undone, and reads back the same.
#include <cmath>
#include <stdexcept>

#include "base/error.h"
#include "denoise/image_record.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto json = ddpm::base::parse_json(ddpm::fuzz::text_of(data, size), {.max_bytes = 1U << 16U});
    ddpm::denoise::ImageRecord image;
    image.set_normalization(json, "normalization.json");
    ddpm::fuzz::require(std::isfinite(1.0F / static_cast<float>(image.normalization.scale)), "it can be undone");
    ddpm::denoise::ImageRecord again;
    again.set_normalization(ddpm::base::Json::parse(image.record_json().dump()), "again");
    ddpm::fuzz::require(again.dtype == image.dtype && again.normalization == image.normalization &&
                            again.wraps == image.wraps && again.fields == image.fields && again.names == image.names &&
                            again.whole == image.whole && again.mask == image.mask,
                        "reads back the same");
  } catch (const std::invalid_argument&) {
  } catch (const ddpm::base::OutputError&) {
  }
  return 0;
}
