// interop::parse_weight_index: what is accepted names files of the folder alone.
#include "interop/weight_index.h"

#include <stdexcept>

#include "base/error.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto json = ddpm::base::parse_json(ddpm::fuzz::text_of(data, size), {.max_bytes = 1U << 16U});
    for (const auto& [weight, file] : ddpm::interop::parse_weight_index(json, "index.json")) {
      ddpm::fuzz::require(file.find('/') == std::string::npos && file != "..", "a file leaves the folder");
    }
  } catch (const std::invalid_argument&) {
  } catch (const ddpm::base::OutputError&) {
  }
  return 0;
}
