// A survey of healthy hosts, which tests spoil, and what is expected of the findings.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/named.h"
#include "doctor/judge.h"
#include "doctor/survey.h"

namespace ddpm::doctor {

inline constexpr int kCpusPerRank = 4;

inline HostFacts healthy_machine(int ranks) {
  HostFacts machine;
  machine.kernel = "6.1.0";
  machine.cpu_model = "Some CPU";
  machine.governor = "performance";
  machine.huge_pages = "madvise";
  for (int cpu = 0; cpu < ranks * kCpusPerRank; ++cpu) {
    machine.cpus.push_back(cpu);
    machine.cores.push_back(cpu);
    if (cpu % kCpusPerRank == 0) machine.numa_nodes.emplace_back();
    machine.numa_nodes.back().push_back(cpu);
  }
  machine.memory_bytes = int64_t{64} << 30;
  machine.available_bytes = int64_t{60} << 30;
  machine.shared_memory_bytes = machine.shared_memory_free_bytes = int64_t{32} << 30;
  return machine;
}

/// Hosts node00, node01 ...; each rank is bound to four cores, which are one NUMA node, and uses them.
inline Survey healthy_survey(int hosts, int ranks_per_host) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(hosts * ranks_per_host));
  for (int rank = 0; rank < hosts * ranks_per_host; ++rank)
    names.push_back(fmt::format("node{:02}", rank / ranks_per_host));
  Survey survey = make_survey(names);
  survey.thread_level = "multiple";
  for (int rank = 0; rank < hosts * ranks_per_host; ++rank) {
    const int local = rank % ranks_per_host;
    ProcessFacts facts;
    facts.host = names[static_cast<std::size_t>(rank)];
    facts.launcher = "srun (job 5)";
    facts.threads = kCpusPerRank;
    facts.versions = {
        {"ddpm", "0.1.0"},   {"program", "abc"}, {"libtorch", "2.11.0"},    {"libtorch_of_build", "2.11.0"},
        {"mpi", "Open MPI"}, {"hdf5", "1.10.8"}, {"cpu_capability", "AVX2"}};
    facts.environment = {{"OMP_NUM_THREADS", "4"}, {"CUDA_VISIBLE_DEVICES", std::to_string(local)}};
    facts.limits = {{"locked_memory_bytes", -1}, {"open_files", 4096}, {"file_bytes", -1}, {"address_space_bytes", -1}};
    for (int cpu = 0; cpu < kCpusPerRank; ++cpu) facts.cpus.push_back(local * kCpusPerRank + cpu);
    if (local == 0) facts.machine = healthy_machine(ranks_per_host);
    survey.ranks.push_back(facts);
  }
  for (int a = 0; a < hosts; ++a) {
    for (int b = a + 1; b < hosts; ++b) survey.links.push_back({a, b, 2e-6, 10e9});
    survey.inside.push_back({0, ranks_per_host - 1, ranks_per_host > 1 ? 0.5e-6 : 0.0, 12e9});
    survey.clocks.push_back({1e-4, 2e-6});
    survey.visitors.push_back(a * ranks_per_host);
    FolderVisit visit;
    visit.found_s = visit.seen_s = 0.001;
    for (const char* what : {"create", "write", "sync", "rename", "sync_directory", "read"}) visit.seconds[what] = 0.01;
    visit.locks = {{"flock", "excludes"}, {"fcntl", "excludes"}};
    survey.folder.visits.push_back(visit);
  }
  survey.folder.path = survey.folder.tested = "runs/x";
  survey.folder.type = "lustre";
  survey.folder.free_bytes = uint64_t{1} << 40;
  survey.folder.file_bytes = int64_t{16} << 20;
  survey.folder.winners = {1, 1, 1, 1};
  return survey;
}

/// The only finding of `findings`; one with an empty text when there is not just one.
inline Finding only(const std::vector<Finding>& findings) {
  EXPECT_EQ(findings.size(), 1U);
  return findings.size() == 1 ? findings.front() : Finding{};
}

inline void expect(const std::vector<Finding>& findings, Severity severity, const testing::Matcher<std::string>& seen) {
  const Finding finding = only(findings);
  EXPECT_EQ(base::name_of(finding.severity), base::name_of(severity)) << finding.seen;
  EXPECT_THAT(finding.seen, seen);
  EXPECT_EQ(finding.advice.empty(), severity == Severity::ok);
}

}  // namespace ddpm::doctor
