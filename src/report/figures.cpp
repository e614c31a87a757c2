#include "report/figures.h"

#include <algorithm>
#include <utility>

namespace ddpm::report {
namespace {

/// The keys in which the runs differ, in the order of the first run that has them.
std::vector<DifferingKey> differences_of(const std::vector<RunRecord>& records) {
  std::vector<DifferingKey> found;
  for (const RunRecord& record : records) {
    for (const Setting& setting : record.settings) {
      if (std::ranges::find(found, setting.path, &DifferingKey::path) != found.end()) continue;
      DifferingKey key{setting.path, {}};
      for (const RunRecord& one : records) key.values.push_back(one.setting(setting.path).value_or(""));
      found.push_back(std::move(key));
    }
  }
  std::erase_if(found, [](const DifferingKey& key) {
    return std::ranges::all_of(key.values, [&](const std::string& value) { return value == key.values.front(); });
  });
  return found;
}

/// "a" and "b" of "runs/a" and "runs/b".
void set_labels(std::vector<RunRecord>& records) {
  std::string_view shared = records.front().name;
  for (const RunRecord& record : records) {
    const auto differ = std::ranges::mismatch(shared, record.name).in1;
    shared = shared.substr(0, static_cast<std::size_t>(differ - shared.begin()));
  }
  const std::size_t folder = shared.rfind('/');
  const std::size_t skipped = folder == std::string_view::npos ? 0 : folder + 1;
  for (RunRecord& record : records) record.label = record.name.substr(skipped);
}

}  // namespace

std::vector<std::string> Figures::damage() const {
  std::vector<std::string> all;
  for (const RunRecord& record : records) all.insert(all.end(), record.damage.begin(), record.damage.end());
  return all;
}

Figures figures_of(std::vector<RunRecord> records, const ProposalOptions& options, double now) {
  Figures figures{.now = now, .records = std::move(records), .proposal = {}, .options = options};
  set_labels(figures.records);
  for (const RunRecord& record : figures.records) {
    const Measures measures = measures_of(record, now);
    const auto training_at = measures.phase == Phase::training ? std::optional(now) : std::nullopt;
    figures.runs.push_back({measures, judge(measures), account_of(record, training_at), ask_slurm(jobs_of(record))});
  }
  std::vector<ProposalRun> runs;
  for (std::size_t i = 0; i < figures.runs.size(); ++i) {
    runs.push_back({figures.records[i], figures.runs[i].measures, figures.runs[i].account});
  }
  figures.differences = differences_of(figures.records);
  figures.charts = charts_of(figures.records);
  figures.proposal = propose(runs, options);
  return figures;
}

}  // namespace ddpm::report
