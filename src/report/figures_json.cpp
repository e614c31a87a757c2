#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/named.h"
#include "base/version.h"
#include "report/figures.h"

namespace ddpm::report {
namespace {

using base::OrderedJson;

constexpr int64_t kFormat = 1;

template <typename T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson interval_json(const Interval& interval) {
  return {{"value", interval.value}, {"low", interval.low}, {"high", interval.high}};
}
OrderedJson interval_json(const std::optional<Interval>& interval) {
  return interval ? interval_json(*interval) : OrderedJson(nullptr);
}

OrderedJson trend_json(const std::optional<Trend>& trend) {
  if (!trend) return nullptr;
  return {{"direction", base::name_of(trend->direction)},
          {"first_step", trend->first},
          {"last_step", trend->last},
          {"blocks", trend->blocks},
          {"change", interval_json(trend->change)},
          {"level", interval_json(trend->level)}};
}

OrderedJson validation_json(const std::optional<Validations>& validation) {
  if (!validation) return nullptr;
  return {{"count", validation->count},
          {"last", validation->last},
          {"best", validation->best},
          {"best_step", validation->best_step},
          {"since_best", validation->since_best},
          {"trend", trend_json(validation->trend)},
          {"gap", interval_json(validation->gap)},
          {"gap_at_best", interval_json(validation->gap_at_best)}};
}

OrderedJson divergence_json(const std::optional<Divergence>& divergence) {
  if (!divergence) return nullptr;
  return {{"step", divergence->step}, {"lowest", divergence->lowest}, {"level", divergence->level}};
}

OrderedJson finding_json(const Finding& finding) {
  return {{"tone", base::name_of(finding.tone)}, {"about", finding.about}, {"text", finding.text}};
}

OrderedJson account_json(const RunFigures& run) {
  const Account& account = run.account;
  OrderedJson jobs = OrderedJson::array();
  for (const SlurmJob& job : run.jobs) {
    jobs.push_back({{"job", job.job},
                    {"seconds", job.seconds},
                    {"core_seconds", job.core_seconds},
                    {"joules", or_null(job.joules)}});
  }
  return {{"starts", account.starts},
          {"unfinished_starts", account.unfinished},
          {"repeated_steps", account.repeated},
          {"seconds", account.seconds},
          {"core_seconds", account.core_seconds},
          {"device_seconds", account.device_seconds},
          {"joules", account.energy_source.empty() ? OrderedJson(nullptr) : OrderedJson(account.joules)},
          {"joules_seconds", account.measured_seconds},
          {"energy_source", account.energy_source},
          {"slurm_jobs", jobs}};
}

OrderedJson checkpoints_json(const RunRecord& record) {
  OrderedJson list = OrderedJson::array();
  for (const CheckpointFacts& one : record.checkpoints) {
    list.push_back({{"step", one.step}, {"bytes", one.bytes}, {"written", one.written}, {"problem", one.problem}});
  }
  return list;
}

/// Sigmas as eval/result.h writes them.
OrderedJson sigmas_json(const std::optional<double>& sigmas) {
  if (sigmas && std::isinf(*sigmas)) return *sigmas > 0 ? "inf" : "-inf";
  return or_null(sigmas);
}

OrderedJson evaluations_json(const RunRecord& record) {
  OrderedJson list = OrderedJson::array();
  for (const Evaluation& one : record.evaluations) {
    OrderedJson metrics = OrderedJson::array();
    for (const EvaluatedMetric& metric : one.metrics) {
      metrics.push_back({{"name", metric.name},
                         {"variable", metric.variable},
                         {"level", metric.level},
                         {"value", or_null(metric.value)},
                         {"low", or_null(metric.low)},
                         {"high", or_null(metric.high)},
                         {"standard_error", or_null(metric.standard_error)},
                         {"reference", or_null(metric.reference)},
                         {"sigmas", sigmas_json(metric.sigmas)},
                         {"p_value", or_null(metric.p_value)},
                         {"verdict", metric.verdict}});
    }
    OrderedJson comparisons = OrderedJson::array();
    for (const EvaluatedComparison& compared : one.comparisons) {
      comparisons.push_back({{"metric", compared.metric},
                             {"variable", compared.variable},
                             {"level", compared.level},
                             {"a", or_null(compared.a)},
                             {"b", or_null(compared.b)},
                             {"difference", or_null(compared.difference)},
                             {"standard_error", or_null(compared.standard_error)},
                             {"p_adjusted", or_null(compared.p_adjusted)},
                             {"verdict", compared.verdict}});
    }
    list.push_back({{"file", one.file},
                    {"kind", one.kind},
                    {"samples", one.samples},
                    {"against", one.against},
                    {"weights", one.weights},
                    {"step", or_null(one.step)},
                    {"metrics", metrics},
                    {"comparisons", comparisons},
                    {"notes", one.notes}});
  }
  return list;
}

OrderedJson run_json(const RunRecord& record, const RunFigures& run) {
  const Measures& m = run.measures;
  OrderedJson findings = OrderedJson::array();
  for (const Finding& finding : run.judgement.findings) findings.push_back(finding_json(finding));
  return {{"name", record.name},
          {"phase", base::name_of(m.phase)},
          {"step", m.step},
          {"total_steps", or_null(m.total)},
          {"counsel", finding_json(run.judgement.counsel)},
          {"findings", findings},
          {"loss", trend_json(m.loss)},
          {"divergence", divergence_json(m.divergence)},
          {"unfinite_losses", m.unfinite.count},
          {"validation", validation_json(m.validation)},
          {"other_images_until", m.other_images},
          {"other_validation_until", m.other_validation},
          {"skipped_steps", m.skipped},
          {"of_logged_steps", m.recent},
          {"loss_scale", m.loss_scale},
          {"images_per_second", or_null(m.images_per_second)},
          {"first_images_per_second", or_null(m.first_images_per_second)},
          {"data_wait_fraction", or_null(m.data_wait)},
          {"comm_wait_fraction", or_null(m.comm_wait)},
          {"seconds_left", or_null(m.seconds_left)},
          {"log_age", or_null(m.log_age)},
          {"checkpoint_step", or_null(m.checkpoint_step)},
          {"checkpoint_age", or_null(m.checkpoint_age)},
          {"use", account_json(run)},
          {"checkpoints", checkpoints_json(record)},
          {"evaluations", evaluations_json(record)},
          {"pictures", record.pictures.size()},
          {"missing", record.missing},
          {"damage", record.damage}};
}

OrderedJson proposal_json(const Proposal& proposal) {
  OrderedJson efficiency = nullptr;
  if (proposal.efficiency) {
    efficiency = {{"unit", proposal.efficiency->unit},
                  {"fewest", proposal.efficiency->fewest},
                  {"most", proposal.efficiency->most},
                  {"efficiency", proposal.efficiency->share}};
  }
  return {{"text", proposal.text},
          {"images", proposal.images},
          {"seconds", or_null(proposal.seconds)},
          {"core_hours", or_null(proposal.core_hours)},
          {"device_hours", or_null(proposal.device_hours)},
          {"kwh", or_null(proposal.kwh)},
          {"parallel_efficiency", efficiency}};
}

/// To six digits: more of a curve cannot be seen.
OrderedJson rounded(const std::vector<double>& values) {
  OrderedJson list = OrderedJson::array();
  for (const double value : values) {
    if (std::isfinite(value)) {
      list.push_back(std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr));
    } else {
      list.push_back(nullptr);
    }
  }
  return list;
}

}  // namespace

OrderedJson to_json(const std::vector<Chart>& charts) {
  OrderedJson list = OrderedJson::array();
  for (const Chart& chart : charts) {
    OrderedJson series = OrderedJson::array();
    for (const Series& one : chart.series) {
      OrderedJson x = OrderedJson::array();
      for (const double step : one.curve.x) x.push_back(static_cast<int64_t>(step));
      series.push_back({{"name", one.name},
                        {"place", one.place},
                        {"x", x},
                        {"y", rounded(one.curve.y)},
                        {"low", rounded(one.curve.low)},
                        {"high", rounded(one.curve.high)}});
    }
    list.push_back({{"title", chart.title},
                    {"unit", chart.unit},
                    {"note", chart.note},
                    {"log", chart.logarithmic},
                    {"series", series}});
  }
  return list;
}

OrderedJson to_json(const Figures& figures) {
  OrderedJson runs = OrderedJson::array();
  for (std::size_t i = 0; i < figures.runs.size(); ++i) runs.push_back(run_json(figures.records[i], figures.runs[i]));
  OrderedJson differences = OrderedJson::object();
  for (const DifferingKey& key : figures.differences) differences[key.path] = key.values;
  return {{"format", kFormat},
          {"ddpm", base::kVersion},
          {"time", figures.now},
          {"runs", runs},
          {"differences", differences},
          {"proposal", proposal_json(figures.proposal)},
          {"charts", to_json(figures.charts)}};
}

}  // namespace ddpm::report
