#include "base/utc_text.h"

#include <ctime>

#include <fmt/chrono.h>

namespace ddpm::base {
namespace {

std::tm utc(int64_t seconds) { return fmt::gmtime(static_cast<std::time_t>(seconds)); }

}  // namespace

std::string utc_text(int64_t seconds) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", utc(seconds)); }

std::string utc_text_ms(std::chrono::system_clock::time_point time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::floor<std::chrono::milliseconds>(time - whole);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", utc(whole.time_since_epoch().count()), rest.count());
}

std::string utc_text_ns(int64_t seconds, int64_t nanoseconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09} UTC", utc(seconds), nanoseconds);
}

std::string utc_minute_text(int64_t seconds) { return fmt::format("{:%Y-%m-%d %H:%M} UTC", utc(seconds)); }

}  // namespace ddpm::base
