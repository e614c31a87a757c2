// Judges the clocks of hosts.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

constexpr double kClockToleranceS = 1.0;

}  // namespace

std::vector<Finding> judge_clocks(const Survey& survey) {
  std::vector<std::string> late;
  double worst = 0.0;
  double most = 0.0;
  double uncertainty = 0.0;
  for (std::size_t host = 0; host < survey.clocks.size(); ++host) {
    const comm::ClockOffset& clock = survey.clocks[host];
    most = std::max(most, std::abs(clock.offset_s));
    uncertainty = std::max(uncertainty, clock.uncertainty_s);
    if (std::abs(clock.offset_s) - clock.uncertainty_s < kClockToleranceS) continue;
    late.push_back(survey.hosts[host]);
    if (std::abs(clock.offset_s) > std::abs(worst)) worst = clock.offset_s;
  }
  if (!late.empty()) {
    return {{Severity::warning, Area::clocks,
             fmt::format("the clock of {} is up to {:.3g} s {} that of {}", hosts_text(late), std::abs(worst),
                         worst > 0.0 ? "ahead of" : "behind", survey.hosts.front()),
             "start chronyd or ntpd there: file times and log lines of the hosts do not fit together"}};
  }
  if (survey.clocks.size() < 2) return {{Severity::ok, Area::clocks, "one host: one clock", ""}};
  return {{Severity::ok, Area::clocks,
           fmt::format("at most {:.3g} ms from that of {}, known to {:.3g} ms", most * 1e3, survey.hosts.front(),
                       uncertainty * 1e3),
           ""}};
}

}  // namespace ddpm::doctor
