// interop::unet_from_json on a config.json: what is accepted is written and read back the same.
#include "interop/unet_json.h"

#include <stdexcept>

#include "base/error.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto json = ddpm::base::parse_json(ddpm::fuzz::text_of(data, size), {.max_bytes = 1U << 16U});
    const auto unet = ddpm::interop::unet_from_json(json, "config.json");
    const auto written = ddpm::interop::unet_to_json(unet);
    const auto again = ddpm::interop::unet_from_json(ddpm::base::Json(written), "again");
    ddpm::fuzz::require(ddpm::interop::unet_to_json(again) == written, "reads back the same");
  } catch (const std::invalid_argument&) {
  } catch (const ddpm::base::ConfigError&) {
  }
  return 0;
}
