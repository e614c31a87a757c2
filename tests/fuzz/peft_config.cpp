// interop::parse_peft_config on an adapter_config.json: what is accepted are plain adapters within bounds.
#include "interop/peft_config.h"

#include <cmath>
#include <stdexcept>

#include "base/error.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ddpm::fuzz::require;
  try {
    const auto json = ddpm::base::parse_json(ddpm::fuzz::text_of(data, size), {.max_bytes = 1U << 16U});
    const ddpm::nn::LoraConfig lora = ddpm::interop::parse_peft_config(json, "adapter_config.json");
    require(lora.rank >= 1 && lora.rank <= 4096, "the rank is one that can be trained");
    require(lora.alpha && std::isfinite(lora.scale()) && lora.scale() > 0.0, "the scale is a number above 0");
    require(!lora.targets.empty(), "there are layers");
    require(json.value("use_dora", false) == false && json.value("use_rslora", false) == false,
            "the adapters are plain");
  } catch (const std::invalid_argument&) {
  } catch (const ddpm::base::OutputError&) {
  } catch (const nlohmann::json::type_error&) {  // of value(): the key was accepted, so it is null or empty
  }
  return 0;
}
