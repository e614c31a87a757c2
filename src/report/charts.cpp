#include "report/charts.h"

#include <cmath>
#include <functional>
#include <limits>

#include "report/measures.h"

namespace ddpm::report {
namespace {

using observe::StepMetrics;

constexpr std::size_t kPoints = 400;
constexpr const char* kMovingMean = "moving mean and its 95 % interval";

/// How a metric becomes a chart.
struct Kind {
  const char* title;
  const char* unit;
  bool smooth;
  bool logarithmic;
  std::function<double(const StepMetrics&)> value;
  double most = std::numeric_limits<double>::infinity();  ///< that the numbers can be; at least they are 0
};

std::vector<Kind> kinds() {
  constexpr double kGiga = 1e-9;
  constexpr double kPercent = 100.0;
  return {
      {"Training loss", "", true, true, [](const StepMetrics& m) { return m.loss; }},
      {"Validation loss", "", false, true,
       [](const StepMetrics& m) { return m.validation_loss.value_or(std::numeric_limits<double>::quiet_NaN()); }},
      {"Learning rate", "", false, false, [](const StepMetrics& m) { return m.learning_rate; }},
      {"Gradient norm", "", true, true, [](const StepMetrics& m) { return m.grad_norm; }},
      {"Throughput", "images per second", true, false, [](const StepMetrics& m) { return m.images_per_second; }},
      {"Highest memory of a rank so far", "GB", false, false,
       [](const StepMetrics& m) { return kGiga * static_cast<double>(m.peak_memory_bytes); }},
      {"Time spent waiting for images", "%", true, false,
       [](const StepMetrics& m) { return kPercent * m.data_wait_fraction; }, kPercent},
      {"Time spent waiting for other ranks", "%", true, false,
       [](const StepMetrics& m) { return kPercent * m.comm_wait_fraction; }, kPercent},
  };
}

/// An empty curve where all numbers are missing.
Curve curve_of(const RunRecord& run, const std::function<double(const StepMetrics&)>& value, bool smooth,
               double most = std::numeric_limits<double>::infinity()) {
  std::vector<double> values;
  values.reserve(run.metrics.size());
  for (const StepMetrics& one : run.metrics) values.push_back(value(one));
  const std::vector<int64_t> steps = steps_of(run);
  return smooth ? smoothed(steps, values, kPoints, {.most = most}) : thinned(steps, values, kPoints);
}

void add_quartiles(const RunRecord& run, bool named, std::vector<Chart>& charts) {
  constexpr std::array kNames = {"lowest noise", "second quarter", "third quarter", "highest noise"};
  Chart chart{.title = "Loss by noise level" + (named ? ": " + run.name : std::string()),
              .unit = "",
              .note = std::string(kMovingMean) + ", by quarter of the timesteps",
              .logarithmic = true,
              .series = {}};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    Curve curve = curve_of(
        run, [i](const StepMetrics& m) { return m.loss_quartiles.at(i); }, /*smooth=*/true);
    if (!curve.x.empty()) chart.series.push_back({kNames.at(i), std::move(curve)});
  }
  if (!chart.series.empty()) charts.push_back(std::move(chart));
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<RunRecord>& runs) {
  std::vector<Chart> charts;
  for (const Kind& kind : kinds()) {
    Chart chart{.title = kind.title,
                .unit = kind.unit,
                .note = kind.smooth ? kMovingMean : "",
                .logarithmic = kind.logarithmic,
                .series = {}};
    for (const RunRecord& run : runs) {
      Curve curve = curve_of(run, kind.value, kind.smooth, kind.most);
      if (!curve.x.empty()) chart.series.push_back({run.name, std::move(curve)});
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  for (const RunRecord& run : runs) add_quartiles(run, runs.size() > 1, charts);
  return charts;
}

}  // namespace ddpm::report
