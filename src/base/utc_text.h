// Times as people read them, in UTC.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ddpm::base {

// Seconds count from 1970. Each throws fmt::format_error for a year that no calendar holds.

/// "2026-11-25T01:50:02Z"
std::string utc_text(int64_t seconds);
/// "2026-11-25T01:50:02.123Z"
std::string utc_text_ms(std::chrono::system_clock::time_point time);
/// "2026-11-25 01:50:02.123456789 UTC"
std::string utc_text_ns(int64_t seconds, int64_t nanoseconds);
/// "2026-11-25 01:50 UTC"
std::string utc_minute_text(int64_t seconds);

}  // namespace ddpm::base
