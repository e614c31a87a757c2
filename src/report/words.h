// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "report/stats.h"

namespace ddpm::report {

/// "45 s", "12 min", "3 h 20 min", "2 d 4 h".
std::string duration_text(double seconds);
/// "2026-11-25 01:30 UTC".
std::string time_text(double seconds_since_1970);
/// Seconds as hours, to three digits.
std::string hours_text(double seconds);
/// Joules as kWh.
inline double kwh_of(double joules) { return joules / 3.6e6; }
/// "512 B", "1.2 KB", "3.4 MB": powers of 1000.
std::string decimal_size_text(double bytes);
/// To `digits` significant digits, with a true minus sign: "0.01234", "1.2e-07".
std::string number_text(double value, int digits = 4);
/// "12,345" from 1000 on, else number_text(value, 3).
std::string rate_text(double value);
/// "+3.2 %", "−0.4 %".
std::string change_text(double share);
/// "12 %", "0.4 %".
std::string share_text(double share);
/// "+3.2 % (95 % interval +1.0 % to +5.4 %)".
std::string change_text(const Interval& share);

}  // namespace ddpm::report
