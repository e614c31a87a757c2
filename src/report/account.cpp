#include "report/account.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/parse_number.h"
#include "base/program_output.h"

namespace ddpm::report {
namespace {

/// A job's number as Slurm has it: nothing else becomes an argument of sacct.
bool is_job(std::string_view text) {
  return !text.empty() && text.size() <= 32 && text.front() >= '0' && text.front() <= '9' &&
         text.find_first_not_of("0123456789_") == std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

double number_in(std::string_view text) { return base::parse_number<double>(text).value_or(0.0); }

/// Slurm writes 0 where no energy was measured, or a number near 2^64.
std::optional<double> joules_in(std::string_view text) {
  constexpr double kMost = 1e18;
  const double joules = number_in(text);
  return joules > 0.0 && joules < kMost ? std::optional(joules) : std::nullopt;
}

/// Whether the GPUs of a start are a part of its energy on all of its nodes, each kind of which has a source. Cray's
/// counters are of whole nodes.
bool measures_gpus(std::string_view energy_source) {
  return std::ranges::all_of(split(energy_source, ','), [](std::string_view of_nodes) {
    return of_nodes.find("NVML") != std::string_view::npos || of_nodes.find("pm_counters") != std::string_view::npos;
  });
}

}  // namespace

observe::UsageLine counted_line(const RunRecord& run, std::size_t start, std::optional<double> now) {
  observe::UsageLine line = run.usage[start];
  if (!now || start + 1 != run.usage.size() || line.event == observe::UsageEvent::end) return line;
  const double since = std::max(0.0, *now - line.time);
  line.seconds += since;
  line.core_seconds += since * static_cast<double>(line.cpus);
  line.device_seconds += since * static_cast<double>(line.devices);
  line.to = std::max(line.to, run.last_step());
  return line;
}

Account account_of(const RunRecord& run, std::optional<double> now) {
  Account account;
  std::set<std::string> sources;
  const int64_t batch = run.integer_setting("batch.global_size").value_or(0);
  for (std::size_t i = 0; i < run.usage.size(); ++i) {
    const observe::UsageLine line = counted_line(run, i, now);
    const observe::UsageLine& measured = run.usage[i];
    const auto images_of = [batch](const observe::UsageLine& one) {
      return std::max<int64_t>(0, one.to - one.from) * batch;
    };
    ++account.starts;
    account.unfinished += line.event == observe::UsageEvent::end ? 0 : 1;
    if (i + 1 < run.usage.size()) account.repeated += std::max<int64_t>(0, line.to - run.usage[i + 1].from);
    account.seconds += line.seconds;
    account.core_seconds += line.core_seconds;
    account.device_seconds += line.device_seconds;
    account.images += images_of(line);
    if (!line.joules) continue;
    account.joules += *line.joules;
    account.measured_seconds += measured.seconds;
    account.measured_images += images_of(measured);
    sources.insert(line.energy_source);
    account.lacks_gpus = account.lacks_gpus || (line.devices > 0 && !measures_gpus(line.energy_source));
  }
  account.energy_source = fmt::format("{}", fmt::join(sources, ", "));
  return account;
}

std::vector<std::string> jobs_of(const RunRecord& run) {
  std::set<std::string> jobs;
  for (const observe::UsageLine& line : run.usage) {
    if (is_job(line.job)) jobs.insert(line.job);
  }
  return {jobs.begin(), jobs.end()};
}

std::vector<SlurmJob> ask_slurm(const std::vector<std::string>& jobs) {
  constexpr std::chrono::seconds kPatience{30};
  if (jobs.empty()) return {};
  const auto text = base::program_output(
      {"sacct", "--noheader", "--parsable2", "--duplicates", "--format=JobID,ElapsedRaw,CPUTimeRAW,ConsumedEnergyRaw",
       "--jobs", fmt::format("{}", fmt::join(jobs, ","))},
      kPatience);
  return text ? parse_sacct(*text) : std::vector<SlurmJob>();
}

std::vector<SlurmJob> parse_sacct(std::string_view text) {
  constexpr std::size_t kColumns = 4;
  std::vector<SlurmJob> jobs;
  bool own_energy = false;  // the newest job's line of its own had one
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> cells = split(line, '|');
    if (cells.size() != kColumns) continue;
    const std::string_view id = cells[0].substr(0, cells[0].find('.'));
    const bool is_step = id.size() != cells[0].size();
    if (!is_job(id)) continue;
    if (jobs.empty() || jobs.back().job != id) {
      jobs.push_back({std::string(id), 0.0, 0.0, std::nullopt});
      own_energy = false;
    }
    SlurmJob& job = jobs.back();
    const auto joules = joules_in(cells[3]);
    if (!is_step) {
      job.seconds += number_in(cells[1]);
      job.core_seconds += number_in(cells[2]);
      if (joules) job.joules = own_energy ? job.joules.value_or(0.0) + *joules : *joules;
      own_energy = own_energy || joules.has_value();
    } else if (!own_energy && joules) {
      job.joules = std::max(job.joules.value_or(0.0), *joules);
    }
  }
  return jobs;
}

}  // namespace ddpm::report
