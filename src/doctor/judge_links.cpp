// Judges the links between hosts, and between the ranks of one.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

// The best of several measurements on a busy machine counts, so a factor between equal links means something.
constexpr double kSlow = 2.0;               // times less bandwidth than usual
constexpr double kLate = 3.0;               // times more latency than usual ...
constexpr double kLeastDelay_s = 10e-6;     // ... and by at least so much
constexpr double kFabricLatency_s = 30e-6;  // InfiniBand takes 1 to 3 us, TCP mostly more than this

/// What good links reach, which is what a quarter of all do: with one bad host of three, two links of three are slow.
struct Usual {
  double latency_s = 0.0;
  double bytes_per_second = 0.0;

  explicit Usual(const std::vector<Link>& links) {
    std::vector<double> latencies;
    std::vector<double> rates;
    for (const Link& link : links) {
      latencies.push_back(link.latency_s);
      rates.push_back(link.bytes_per_second);
    }
    std::ranges::sort(latencies);
    std::ranges::sort(rates, std::ranges::greater{});
    const std::size_t quarter = (links.size() - 1) / 4;
    latency_s = latencies[quarter];
    bytes_per_second = rates[quarter];
  }
  [[nodiscard]] bool is_slow(const Link& link) const {
    return link.bytes_per_second * kSlow < bytes_per_second ||
           (link.latency_s > kLate * latency_s && link.latency_s > latency_s + kLeastDelay_s);
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{:.3g} us and {:.3g} GB/s are usual", latency_s * 1e6, bytes_per_second / 1e9);
  }
};

std::string text_of(const Link& link) {
  return fmt::format("{:.3g} us, {:.3g} GB/s", link.latency_s * 1e6, link.bytes_per_second / 1e9);
}

/// Hosts of which more than half of the links are slow. With fewer than three links it is unknown which one is usual.
std::set<int> slow_hosts(const Survey& survey, const Usual& usual) {
  std::vector<int> slow(survey.hosts.size());
  for (const Link& link : survey.links) {
    if (!usual.is_slow(link)) continue;
    ++slow[static_cast<std::size_t>(link.a)];
    ++slow[static_cast<std::size_t>(link.b)];
  }
  std::set<int> hosts;
  for (std::size_t host = 0; host < slow.size(); ++host) {
    if (2 * slow[host] > static_cast<int>(slow.size()) - 1) hosts.insert(static_cast<int>(host));
  }
  return hosts;
}

std::vector<Finding> judge_pairs(const Survey& survey) {
  constexpr std::size_t kNamed = 3;
  if (survey.links.size() < 3) return {};
  const Usual usual(survey.links);
  const std::set<int> bad_hosts = slow_hosts(survey, usual);
  std::vector<Finding> findings;
  std::vector<std::string> names;
  for (const int host : bad_hosts) names.push_back(survey.hosts[static_cast<std::size_t>(host)]);
  if (!names.empty()) {
    findings.push_back({Severity::warning, Area::links,
                        fmt::format("messages to and from {} are slow ({})", hosts_text(names), usual.text()),
                        "leave them out (srun --exclude), and tell the administrators: cable, adapter or switch"});
  }
  std::vector<Link> slow;
  for (const Link& link : survey.links) {
    if (usual.is_slow(link) && !bad_hosts.contains(link.a) && !bad_hosts.contains(link.b)) slow.push_back(link);
  }
  std::ranges::sort(slow, {}, &Link::bytes_per_second);
  std::string seen;
  for (std::size_t i = 0; i < std::min(slow.size(), kNamed); ++i) {
    seen += fmt::format("{}{} with {}: {}", i == 0 ? "" : "; ", survey.hosts[static_cast<std::size_t>(slow[i].a)],
                        survey.hosts[static_cast<std::size_t>(slow[i].b)], text_of(slow[i]));
  }
  if (slow.empty()) return findings;
  if (slow.size() > kNamed) seen += fmt::format("; and {} more pairs", slow.size() - kNamed);
  findings.push_back(
      {Severity::warning, Area::links, fmt::format("{} ({})", seen, usual.text()),
       "look at the switches between them; a job on neighbouring nodes (srun --switches=1) avoids them"});
  return findings;
}

std::vector<Finding> judge_inside(const Survey& survey) {
  std::vector<Link> inside;
  for (const Link& link : survey.inside) {
    if (link.latency_s > 0.0) inside.push_back(link);
  }
  if (inside.size() < 3) return {};
  const Usual usual(inside);
  return judge_hosts(survey, Severity::warning, Area::links,
                     "see whether other programs run there, and whether /dev/shm has room", [&](std::size_t host) {
                       const Link& link = survey.inside[host];
                       if (link.latency_s == 0.0 || !usual.is_slow(link)) return std::string();
                       return fmt::format("messages between ranks of one host are slow ({})", usual.text());
                     });
}

std::vector<Finding> judge_fabric(const Survey& survey) {
  if (survey.links.empty()) return {};
  const auto& ports = survey.machine(0).fabric_ports;
  // Amazon's EFA is there listed too, and takes as long as TCP.
  const auto active = std::ranges::find_if(
      ports, [](const FabricPort& port) { return port.state == "ACTIVE" && !port.name.starts_with("efa"); });
  const double latency_s = Usual(survey.links).latency_s;
  if (active == ports.end() || latency_s < kFabricLatency_s) return {};
  return {{Severity::warning, Area::links,
           fmt::format("a message between hosts takes {:.3g} us, though there is an active {} adapter", latency_s * 1e6,
                       active->name),
           survey.machine(0).cxi_devices.empty()
               ? "MPI seems to use TCP: build it with UCX or libfabric, or set OMPI_MCA_pml=ucx"
               : "MPI seems to use TCP: take Cray MPICH, or an MPI that was built with libfabric's cxi provider"}};
}

}  // namespace

std::vector<Finding> judge_links(const Survey& survey) {
  std::vector<Finding> findings = judge_pairs(survey);
  append(findings, judge_inside(survey));
  append(findings, judge_fabric(survey));
  if (!findings.empty()) return findings;
  std::string seen;
  if (survey.ranks.size() == 1) {
    seen = "one rank: nothing to measure";
  } else if (survey.links.empty()) {
    seen = fmt::format("within the host {}; one host: no network was measured", text_of(survey.inside.front()));
  } else {
    seen = fmt::format("{} between hosts: {}", survey.links.size() == 1 ? "1 link" : "all links",
                       Usual(survey.links).text());
  }
  return {{Severity::ok, Area::links, seen, ""}};
}

}  // namespace ddpm::doctor
