#include "report/words.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/utc_text.h"

namespace ddpm::report {
namespace {

/// The hyphen before a number is a minus sign for a reader.
std::string with_minus(std::string text) {
  if (text.starts_with('-')) text.replace(0, 1, "\u2212");
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  if (!std::isfinite(seconds) || seconds > 1e12) return "an unknown time";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 2 * kMinute) return fmt::format("{} s", whole);
  if (whole < 2 * kHour) return fmt::format("{} min", (whole + kMinute / 2) / kMinute);
  if (whole < 2 * kDay) return fmt::format("{} h {} min", whole / kHour, whole % kHour / kMinute);
  return fmt::format("{} d {} h", base::grouped(whole / kDay), whole % kDay / kHour);
}

std::string hours_text(double seconds) {
  constexpr double kHour = 3600.0;
  return number_text(seconds / kHour, 3);
}

std::string time_text(double seconds_since_1970) {
  if (std::isnan(seconds_since_1970)) return "an unknown time";
  return base::utc_minute_text(static_cast<int64_t>(std::clamp(seconds_since_1970, 0.0, 2.5e11)));
}

std::string decimal_size_text(double bytes) {
  constexpr std::array kUnits = {"B", "KB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000.0;
    ++unit;
  }
  return fmt::format("{} {}", unit == 0 ? fmt::format("{:.0f}", bytes) : fmt::format("{:.3g}", bytes), kUnits.at(unit));
}

std::string number_text(double value, int digits) { return with_minus(fmt::format("{:.{}g}", value, digits)); }

std::string rate_text(double value) {
  constexpr double kMost = 1e15;
  if (value >= 1000.0 && value < kMost) return base::grouped(std::llround(value));
  return number_text(value, 3);
}

std::string change_text(double share) {
  constexpr double kMost = 1e15;
  const double percent = 100.0 * share;
  const double size = std::abs(percent);
  return with_minus(size >= 10.0 && size < kMost ? fmt::format("{:+.0f} %", percent)
                                                 : fmt::format("{:+.2g} %", percent));
}

std::string share_text(double share) {
  const double percent = 100.0 * share;
  return with_minus(percent >= 10.0 ? fmt::format("{:.0f} %", percent) : fmt::format("{:.2g} %", percent));
}

std::string change_text(const Interval& share) {
  return fmt::format("{} (95 % interval {} to {})", change_text(share.value), change_text(share.low),
                     change_text(share.high));
}

}  // namespace ddpm::report
