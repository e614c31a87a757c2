#include <fmt/format.h>

#include "base/counted.h"
#include "report/html.h"
#include "report/sections.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

std::string hardware_of(const observe::UsageLine& line) {
  const std::string what = line.devices > 0 ? base::counted(line.devices, "GPU") : base::counted(line.cpus, "thread");
  const std::string name = line.device_name.empty() ? line.device : line.device_name;
  return fmt::format("{} on {}: {}, {}", base::counted(line.ranks, "rank"), base::counted(line.nodes, "node"), what,
                     name);
}

std::string ending_of(const RunRecord& record, std::size_t start, const Measures& measures) {
  const observe::UsageLine& line = record.usage[start];
  if (!line.error.empty()) return "failed: " + line.error;
  if (line.event == observe::UsageEvent::end) return "ended in order";
  const bool last = start + 1 == record.usage.size();
  return last && measures.phase == Phase::training ? "training now" : "cut off after its last line";
}

std::string starts_table(const RunRecord& record, const Measures& measures, double now) {
  const auto training_at = measures.phase == Phase::training ? std::optional(now) : std::nullopt;
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < record.usage.size(); ++i) {
    const observe::UsageLine line = counted_line(record, i, training_at);
    rows.push_back({text_cell(time_text(record.usage[i].time - record.usage[i].seconds)), text_cell(hardware_of(line)),
                    text_cell(line.job),
                    number_cell(fmt::format("{} to {}", base::grouped(line.from), base::grouped(line.to))),
                    number_cell(duration_text(line.seconds)), number_cell(hours_text(line.core_seconds)),
                    number_cell(line.devices > 0 ? hours_text(line.device_seconds) : ""),
                    number_cell(line.joules ? number_text(kwh_of(*line.joules), 3) : ""), text_cell(line.energy_source),
                    text_cell(ending_of(record, i, measures))});
  }
  return table({"Start", "Where", "Slurm job", "Steps", "Time", "Core-hours", "GPU-hours", "kWh", "Measured by", "End"},
               rows);
}

std::string energy_text(const Account& account, const ProposalOptions& options) {
  if (account.energy_source.empty()) {
    return "Energy was not measured: the machine has no counter (RAPL, Cray's pm_counters, NVML) that "
           "this program may read.";
  }
  const double kwh = kwh_of(account.joules);
  std::string text = fmt::format("{} kWh were measured by {}{} over {}", number_text(kwh, 3), account.energy_source,
                                 account.lacks_gpus ? ", without GPUs," : "", duration_text(account.measured_seconds));
  if (account.measured_seconds > 0.0) {
    text += fmt::format(", {} W on average", number_text(account.joules / account.measured_seconds, 3));
  }
  if (account.measured_images > 0) {
    text +=
        fmt::format(", {} J per image", number_text(account.joules / static_cast<double>(account.measured_images), 3));
  }
  if (options.grams_per_kwh) {
    text += fmt::format("; at {} g of CO₂ per kWh, as given, that is {} kg", number_text(*options.grams_per_kwh, 4),
                        number_text(kwh * *options.grams_per_kwh / 1000.0, 3));
  }
  return text + ".";
}

std::string summary(const Account& account, const ProposalOptions& options) {
  std::string text = fmt::format("{}: {}, {} core-hours", base::counted(account.starts, "start"),
                                 duration_text(account.seconds), hours_text(account.core_seconds));
  if (account.device_seconds > 0.0) text += fmt::format(", {} GPU-hours", hours_text(account.device_seconds));
  text += ". ";
  if (account.repeated > 0) {
    text += fmt::format("{} had to be computed once more, since a start went on from an older checkpoint. ",
                        base::counted(account.repeated, "step"));
  }
  return text + energy_text(account, options);
}

std::string slurm_table(const std::vector<SlurmJob>& jobs) {
  if (jobs.empty()) return "";
  std::vector<std::vector<Cell>> rows;
  rows.reserve(jobs.size());
  for (const SlurmJob& job : jobs) {
    rows.push_back({text_cell(job.job), number_cell(duration_text(job.seconds)),
                    number_cell(hours_text(job.core_seconds)),
                    number_cell(job.joules ? number_text(kwh_of(*job.joules), 3) : "not measured")});
  }
  return element("p", "soft",
                 "Slurm's own account (sacct) of the whole jobs, in which other programs may have run, too:") +
         table({"Slurm job", "Time", "Allocated core-hours", "kWh"}, rows);
}

std::string checkpoints_table(const RunRecord& record, double now) {
  std::vector<std::vector<Cell>> rows;
  for (const CheckpointFacts& one : record.checkpoints) {
    const bool whole = one.problem.empty();
    rows.push_back(
        {number_cell(base::grouped(one.step)),
         number_cell(whole ? decimal_size_text(static_cast<double>(one.bytes)) : ""),
         text_cell(whole ? fmt::format("{} ({} ago)", time_text(one.written), duration_text(now - one.written)) : ""),
         whole ? Cell{"<span class=\"verdict-good\">complete</span>", false}
               : Cell{fmt::format("<span class=\"verdict-bad\">{}</span> {}", one.newer ? "not read" : "damaged",
                                  escaped(one.problem)),
                      false}});
  }
  return table({"Step", "Size", "Written", "State"}, rows);
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string html;
  for (const std::string& line : lines) html += element("li", "", escaped(line));
  return element("ul", "plain", "\n" + html);
}

constexpr const char* kMethod =
    "<p>Trends look at the last 30 % of the logged steps, or the last 16, in up to 16 blocks of consecutive "
    "steps, through whose means a line is fitted: what is said to fall or to rise has changed by 0.5 % of the "
    "level or more, with a slope whose 95 % interval leaves out 0; other changes are flat where the interval "
    "reaches no further than 5 % of the level. Moving means are lines fitted through a fortieth of the logged "
    "steps, at least 8, and their bands are the lines’ 95 % intervals. Core-hours count the threads that "
    "compute, also where the job had more cores. A start that was killed counts up to its last checkpoint, and one "
    "that trains up to now, but for its energy. Whole checkpoints have all files with their sizes; "
    "<code>ddpm checkpoint verify</code> also compares "
    "their SHA-256.</p>\n";

}  // namespace

std::string checkpoints_section(const Figures& figures) {
  std::string html;
  for (std::size_t i = 0; i < figures.records.size(); ++i) {
    if (figures.records[i].checkpoints.empty()) continue;
    html += run_heading(figures, i) + checkpoints_table(figures.records[i], figures.now);
  }
  return html.empty() ? "" : section("checkpoints", "Checkpoints", element("div", "card", html));
}

std::string use_section(const Figures& figures) {
  std::string html;
  for (std::size_t i = 0; i < figures.records.size(); ++i) {
    const RunFigures& run = figures.runs[i];
    if (run.account.starts == 0) continue;
    html += run_heading(figures, i) + element("p", "", escaped(summary(run.account, figures.options)));
    html += starts_table(figures.records[i], run.measures, figures.now) + slurm_table(run.jobs);
  }
  return html.empty() ? "" : section("use", "Use of the machine", element("div", "card", html));
}

std::string proposal_section(const Figures& figures) {
  return section("proposal", "For a proposal for computing time",
                 element("div", "card", element("blockquote", "", escaped(figures.proposal.text))));
}

std::string remarks_section(const Figures& figures) {
  std::string html;
  const std::vector<std::string> damage = figures.damage();
  std::vector<std::string> missing;
  for (const RunRecord& record : figures.records) {
    missing.insert(missing.end(), record.missing.begin(), record.missing.end());
  }
  if (!damage.empty()) html += element("h3", "", "What cannot be read") + list_of(damage);
  if (!missing.empty()) html += element("h3", "", "What is not there") + list_of(missing);
  html += element("h3", "", "How the numbers are made") + kMethod;
  return section("remarks", "Remarks", element("div", "card", html));
}

}  // namespace ddpm::report
