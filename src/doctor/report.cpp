#include "doctor/report.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/named.h"
#include "base/version.h"
#include "base/wrapped.h"
#include "doctor/groups.h"
#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

constexpr std::size_t kWidth = 100;

const char* colour_of(Severity severity) {
  switch (severity) {
    case Severity::ok:
      return "\x1b[32m";
    case Severity::note:
      return "\x1b[36m";
    case Severity::warning:
      return "\x1b[33m";
    case Severity::problem:
      return "\x1b[1;31m";
  }
  return "";
}

std::string head_text(const Survey& survey) {
  const ProcessFacts& first = survey.ranks.front();
  return fmt::format("ddpm {}, {} on {}, {}; {}, thread level {}\n", base::kVersion,
                     base::counted(survey.ranks.size(), "rank"), base::counted(survey.hosts.size(), "host"),
                     first.launcher == "bare" ? "started bare" : "started by " + first.launcher,
                     first.versions.at("mpi"), survey.thread_level);
}

std::string gpus_text(const device::DeviceFacts& facts) {
  if (facts.gpus.empty()) return "-";
  return fmt::format("{} x {}", facts.gpus.size(), facts.gpus.front().name);
}

/// Equal hosts are one row.
std::string hosts_table(const Survey& survey) {
  std::vector<std::string> rows;
  std::size_t width = 5;
  for (std::size_t host = 0; host < survey.hosts.size(); ++host) {
    const HostFacts& machine = survey.machine(host);
    const ProcessFacts& first = survey.ranks[static_cast<std::size_t>(survey.ranks_of[host].front())];
    const std::size_t cores = machine.cores.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(machine.cores)) + 1;
    rows.push_back(fmt::format("{:>6}{:>7}{:>6}{:>6}{:>10}{:>9}{:>11}  {}", survey.ranks_of[host].size(), cores,
                               machine.cpus.size(), machine.numa_nodes.size(), first.cpus.size(), first.threads,
                               binary_size_text(machine.memory_bytes), gpus_text(first.gpus)));
  }
  const auto groups = group_ranks(rows, survey.hosts);
  for (const RankGroup& group : groups)
    width = std::max(width, std::min(hosts_text(group.hosts).size(), std::size_t{30}));
  std::string text = fmt::format("\n{:<{}}{:>6}{:>7}{:>6}{:>6}{:>10}{:>9}{:>11}  {}\n", "hosts", width, "ranks",
                                 "cores", "CPUs", "NUMA", "CPUs/rank", "threads", "memory", "GPUs");
  for (const RankGroup& group : groups) {
    text += fmt::format("{:<{}}{}\n", hosts_text(group.hosts), width, group.value);
  }
  return text;
}

std::string link_line(const char* what, std::vector<Link> links, const std::function<std::string(const Link&)>& name) {
  std::erase_if(links, [](const Link& link) { return link.latency_s == 0.0; });
  if (links.empty()) return "";
  const auto middle = [&links](auto member) {
    std::ranges::sort(links, {}, member);
    return links[links.size() / 2].*member;
  };
  const double latency = middle(&Link::latency_s);
  const Link late = links.back();
  const double rate = middle(&Link::bytes_per_second);
  const Link slow = links.front();
  std::string text = fmt::format("{:<14}{:>9.3g} us {:>9.3g} GB/s\n", what, latency * 1e6, rate / 1e9);
  if (links.size() == 1) return text;
  return text + fmt::format("{:<14}{:>9.3g} us {}, {:.3g} GB/s {}\n", "  worst", late.latency_s * 1e6, name(late),
                            slow.bytes_per_second / 1e9, name(slow));
}

std::string links_text(const Survey& survey) {
  const auto host = [&](int index) { return survey.hosts[static_cast<std::size_t>(index)]; };
  std::vector<Link> inside = survey.inside;  // here the places of a link are its host's
  for (std::size_t i = 0; i < inside.size(); ++i) inside[i].a = static_cast<int>(i);
  const std::string text =
      link_line("between hosts", survey.links,
                [&](const Link& link) { return fmt::format("({} with {})", host(link.a), host(link.b)); }) +
      link_line("within a host", inside, [&](const Link& link) { return fmt::format("({})", host(link.a)); });
  return text.empty() ? "" : "\nmessages        one way\n" + text;
}

std::string curves_text(const Survey& survey) {
  if (survey.curves.empty()) return "";
  std::string text = fmt::format("\n{:<10}", "all-reduce");
  for (const ReductionCurve& curve : survey.curves) {
    text += fmt::format("{:>27}", curve.device == device::DeviceChoice::cpu ? "host memory" : "GPUs (NCCL)");
  }
  text += "\n";
  for (std::size_t i = 0; i < survey.curves.front().points.size(); ++i) {
    text += fmt::format("{:>10}", binary_size_text(survey.curves.front().points[i].bytes));
    for (const ReductionCurve& curve : survey.curves) {
      const auto& point = curve.points[i];
      text += fmt::format("{:>12.1f} us {:>7.2f} GB/s", point.seconds * 1e6, point.bytes_per_second / 1e9);
    }
    text += "\n";
  }
  return text;
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  return seconds < 1.0 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

struct Timed {
  double seconds;
  std::size_t visit;
};

std::string folder_line(const Survey& survey, const char* name, const std::vector<const char*>& parts, bool rate) {
  const FolderFacts& folder = survey.folder;
  std::vector<Timed> all;
  for (std::size_t i = 0; i < folder.visits.size(); ++i) {
    double sum = 0.0;
    for (const char* part : parts) {
      const auto found = folder.visits[i].seconds.find(part);
      if (found != folder.visits[i].seconds.end()) sum += found->second;
    }
    if (sum > 0.0) all.push_back({sum, i});
  }
  if (all.empty()) return "";
  std::ranges::sort(all, {}, &Timed::seconds);
  const auto text = [&](double seconds) {
    return rate ? fmt::format("{:.3g} MB/s", static_cast<double>(folder.file_bytes) / seconds / 1e6)
                : duration(seconds);
  };
  std::string line = fmt::format("{:<20}{:>12}", name, text(all[all.size() / 2].seconds));
  if (all.size() > 1) {
    const int rank = survey.visitors[all.back().visit];
    line += fmt::format("   slowest {} (rank {} on {})", text(all.back().seconds), rank, survey.host_of_rank(rank));
  }
  return line + "\n";
}

std::string folder_text(const Survey& survey) {
  const FolderFacts& folder = survey.folder;
  if (!folder.error.empty()) return "";
  std::string place = folder.path == folder.tested ? "" : fmt::format(", tested in {}", folder.tested);
  if (!folder.type.empty()) place += fmt::format("; {} mounted at {}", folder.type, folder.mount);
  std::string text = base::wrapped(
      fmt::format("run folder {}{}; {} per rank", folder.path, place, binary_size_text(folder.file_bytes)), kWidth, 0,
      0);
  text += folder_line(survey, "create", {"create"}, false);
  text += folder_line(survey, "write and fsync", {"write", "sync"}, true);
  text += folder_line(survey, "rename and fsync", {"rename", "sync_directory"}, false);
  text += folder_line(survey, folder.visits.size() > 1 ? "read a neighbour's" : "read back", {"read"}, true);
  return "\n" + text;
}

}  // namespace

std::string findings_text(const std::vector<Finding>& findings, bool colour) {
  constexpr std::size_t kIndent = 22;
  std::string text;
  for (const Finding& finding : findings) {
    const std::string severity = fmt::format("{:<9}", base::name_of(finding.severity));
    text += colour ? colour_of(finding.severity) + severity + "\x1b[0m" : severity;
    text += fmt::format("{:<13}", base::name_of(finding.area)) + base::wrapped(finding.seen, kWidth, kIndent, kIndent);
    if (!finding.advice.empty())
      text += std::string(kIndent, ' ') + base::wrapped("-> " + finding.advice, kWidth, kIndent, kIndent);
  }
  return text + "\n" + summary(findings) + "\n";
}

std::string text_of(const Survey& survey, const std::vector<Finding>& findings, bool colour) {
  return head_text(survey) + hosts_table(survey) + links_text(survey) + curves_text(survey) + folder_text(survey) +
         "\n" + findings_text(findings, colour);
}

std::string summary(const std::vector<Finding>& findings) {
  std::map<Severity, int> counts;
  for (const Finding& finding : findings) ++counts[finding.severity];
  std::string text = counts[Severity::problem] == 0 ? "no problems" : "";
  for (const Severity severity : {Severity::problem, Severity::warning, Severity::note}) {
    const int count = counts[severity];
    if (count == 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", base::counted(count, base::name_of(severity)));
  }
  return text;
}

}  // namespace ddpm::doctor
