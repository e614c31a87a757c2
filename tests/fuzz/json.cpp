// base::parse_json: what it accepts, the library accepts too, with the same value; nothing passes the limits.
#include "base/json.h"

#include <stdexcept>

#include "fuzz/fuzz.h"

namespace {

int depth_of(const ddpm::base::Json& json) {
  int deepest = 0;
  if (json.is_structured()) {
    for (const auto& item : json) deepest = std::max(deepest, depth_of(item));
    ++deepest;
  }
  return deepest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto text = ddpm::fuzz::text_of(data, size);
  constexpr ddpm::base::JsonLimits kLimits{.max_bytes = 4096, .max_depth = 6, .max_values = 200};
  try {
    const auto json = ddpm::base::parse_json(text, kLimits);
    ddpm::fuzz::require(json == ddpm::base::Json::parse(text), "the value is the library's");
    ddpm::fuzz::require(depth_of(json) <= kLimits.max_depth, "the depth is limited");
    ddpm::fuzz::require(ddpm::base::excerpt(json).size() < 100, "an excerpt is short");
  } catch (const std::invalid_argument& error) {
    ddpm::fuzz::require(std::string_view(error.what()).size() < 400, "a reason is short");
  }
  return 0;
}
