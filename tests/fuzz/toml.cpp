// config::parse_toml and the value of a command line's override, whose texts are read back.
#include "base/error.h"
#include "config/resolve.h"
#include "config/toml_value.h"
#include "config/value.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto text = ddpm::fuzz::text_of(data, size);
  try {
    static_cast<void>(ddpm::config::parse_toml(text, "run.toml"));
  } catch (const ddpm::base::ConfigError&) {
  }
  const auto value = ddpm::config::parse_toml_value(text);
  if (value) ddpm::fuzz::require(ddpm::config::to_short_text(*value).size() < 100, "a shown value is short");
  return 0;
}
