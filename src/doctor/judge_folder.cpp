// Judges the run folder.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "doctor/groups.h"
#include "doctor/judge.h"
#include "doctor/number_ranges.h"

namespace ddpm::doctor {
namespace {

constexpr double kAtOnce_s = 1.0;
constexpr uint64_t kLeastFree = uint64_t{1} << 30;
constexpr double kSlow = 4.0;  // times slower than the median: disks and servers vary more than links

std::vector<std::string> visitor_hosts(const Survey& survey) {
  std::vector<std::string> hosts;
  for (const int rank : survey.visitors) hosts.push_back(survey.host_of_rank(rank));
  return hosts;
}

/// One finding for each different text that visits give; "" is none.
std::vector<Finding> each_visit(const Survey& survey, Severity severity, const std::string& advice,
                                const std::function<std::string(const FolderVisit&)>& look) {
  std::vector<std::string> texts;
  for (const FolderVisit& visit : survey.folder.visits) texts.push_back(look(visit));
  std::vector<Finding> findings;
  for (const RankGroup& group : group_ranks(texts, visitor_hosts(survey))) {
    if (group.value.empty()) continue;
    findings.push_back({severity, Area::folder, fmt::format("{} on {}", group.value, hosts_text(group.hosts)), advice});
  }
  return findings;
}

std::vector<Finding> judge_sharing(const Survey& survey) {
  const FolderFacts& folder = survey.folder;
  auto findings = each_visit(survey, Severity::problem,
                             "name a folder on a file system that all nodes share, and see that it is mounted there",
                             [&](const FolderVisit& visit) {
                               return visit.error.empty() && visit.found_s < 0.0
                                          ? fmt::format("{} is not the folder that {} has", folder.tested,
                                                        visitor_hosts(survey).front())
                                          : std::string();
                             });
  append(findings, each_visit(survey, Severity::problem, "see permissions, quota and the state of the file system",
                              [](const FolderVisit& visit) { return visit.error; }));
  append(findings, each_visit(survey, Severity::problem,
                              "use another file system, and tell the administrators: this one returns wrong data",
                              [](const FolderVisit& visit) { return visit.damage; }));
  return findings;
}

std::vector<Finding> judge_names(const Survey& survey) {
  const FolderFacts& folder = survey.folder;
  if (folder.winners.empty()) return {};  // the test ended before
  auto findings = each_visit(
      survey, Severity::problem, "mount it with less caching (NFS: lookupcache=positive, actimeo=1), or use another",
      [](const FolderVisit& visit) { return std::string(visit.seen_s < 0.0 ? "a renamed file was never seen" : ""); });
  append(findings, each_visit(survey, Severity::warning,
                              "mount it with less caching (NFS: lookupcache=positive, actimeo=1), or use another",
                              [](const FolderVisit& visit) {
                                return visit.seen_s < kAtOnce_s
                                           ? std::string()
                                           : fmt::format("a renamed file was seen after {:.0f} s", visit.seen_s);
                              }));
  const auto wrong = std::ranges::find_if(folder.winners, [](int64_t winners) { return winners != 1; });
  if (wrong != folder.winners.end()) {
    findings.push_back(
        {Severity::problem, Area::folder,
         fmt::format("{} of {} ranks created one same file exclusively, 1 is right", *wrong, folder.visits.size()),
         "use another file system: RUN/LOCK would not keep two runs out of one folder"});
  }
  return findings;
}

std::vector<Finding> judge_locks(const Survey& survey) {
  constexpr std::array<std::pair<const char*, const char*>, 2> kUses{
      {{"flock",
        "commands on different nodes that make the same dataset or export at the same time may not notice each other: "
        "use another file system there (Lustre: mount with flock)"},
       {"fcntl",
        "MPI-IO may want it where several ranks open HDF5 or NetCDF-4 files of other programs: keep these on another "
        "file system (Lustre: mount with flock)"}}};
  std::vector<Finding> findings;
  for (const auto& [kind, advice] : kUses) {
    append(findings,
           each_visit(survey, Severity::warning, advice, [kind = std::string(kind)](const FolderVisit& visit) {
             const auto said = visit.locks.find(kind);
             if (said == visit.locks.end() || said->second == "excludes") return std::string();
             const bool refused = said->second.find(": cannot ") != std::string::npos;
             return refused ? said->second : fmt::format("a lock by {} {}", kind, said->second);
           }));
  }
  return findings;
}

double bytes_per_second(const FolderFacts& folder, const FolderVisit& visit, bool reading) {
  const auto seconds = [&visit](const char* what) {
    const auto found = visit.seconds.find(what);
    return found == visit.seconds.end() ? 0.0 : found->second;
  };
  const double spent = reading ? seconds("read") : seconds("write") + seconds("sync");
  return spent > 0.0 ? static_cast<double>(folder.file_bytes) / spent : 0.0;
}

std::vector<Finding> judge_speed(const Survey& survey) {
  std::vector<Finding> findings;
  const FolderFacts& folder = survey.folder;
  for (const bool reading : {false, true}) {
    std::vector<double> rates;
    for (const FolderVisit& visit : folder.visits) rates.push_back(bytes_per_second(folder, visit, reading));
    if (rates.size() < 3) continue;
    std::ranges::sort(rates);
    const double median = rates[rates.size() / 2];
    append(findings,
           each_visit(survey, Severity::warning, "see how the file system is mounted there, and over which network",
                      [&](const FolderVisit& visit) {
                        const double rate = bytes_per_second(folder, visit, reading);
                        if (rate == 0.0 || rate * kSlow > median) return std::string();
                        return fmt::format("{} goes at less than a {:.0f}th of the usual {:.3g} MB/s",
                                           reading ? "reading" : "writing", kSlow, median / 1e6);
                      }));
  }
  return findings;
}

std::vector<Finding> judge_place(const Survey& survey) {
  const FolderFacts& folder = survey.folder;
  std::vector<Finding> findings;
  if (folder.type == "tmpfs" || folder.type == "ramfs") {
    findings.push_back({Severity::warning, Area::folder,
                        fmt::format("{} lies in memory ({})", folder.tested, folder.type),
                        "checkpoints would be lost with the node: name a folder on a disk"});
  }
  if (folder.free_bytes < kLeastFree) {
    findings.push_back(
        {Severity::warning, Area::folder,
         fmt::format("{} are free in {}", binary_size_text(static_cast<int64_t>(folder.free_bytes)), folder.tested),
         "make room; ddpm train asks for what a checkpoint takes before the first step"});
  }
  if (!folder.left.empty()) {
    findings.push_back(
        {Severity::warning, Area::folder, "the test's files are still there: " + folder.left, "remove them by hand"});
  }
  return findings;
}

}  // namespace

std::vector<Finding> judge_folder(const Survey& survey) {
  const FolderFacts& folder = survey.folder;
  if (!folder.error.empty()) {
    return {{Severity::problem, Area::folder, folder.error, "name a folder that you may write to, with --output"}};
  }
  auto findings = judge_sharing(survey);
  append(findings, judge_names(survey));
  append(findings, judge_locks(survey));
  append(findings, judge_speed(survey));
  append(findings, judge_place(survey));
  if (!findings.empty()) return findings;
  return {{Severity::ok, Area::folder,
           fmt::format("{} free on {}{}", binary_size_text(static_cast<int64_t>(folder.free_bytes)),
                       folder.type.empty() ? "a file system" : folder.type,
                       folder.visits.size() > 1 ? "; what one rank does, the others see at once" : ""),
           ""}};
}

}  // namespace ddpm::doctor
