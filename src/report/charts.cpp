#include "report/charts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "report/measures.h"

namespace ddpm::report {
namespace {

using observe::StepMetrics;

constexpr std::size_t kPoints = 400;
constexpr const char* kMovingMean = "moving mean and its 95 % interval";

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

double bytes_of(const std::optional<int64_t>& bytes) { return bytes ? static_cast<double>(*bytes) : kMissing; }

/// How a metric becomes a chart.
struct Kind {
  const char* title;
  const char* unit;
  bool smooth;
  bool logarithmic;
  std::function<double(const StepMetrics&)> value;
  double most = std::numeric_limits<double>::infinity();  ///< that the numbers can be; at least they are 0
  std::string observe::UsageLine::*images = nullptr;      ///< of a loss: the images that it is of
  const char* done = "";                                  ///< what was done with these images
};

std::vector<Kind> kinds() {
  constexpr double kGiga = 1e-9;
  constexpr double kPercent = 100.0;
  return {
      {.title = "Training loss",
       .unit = "",
       .smooth = true,
       .logarithmic = true,
       .value = [](const StepMetrics& m) { return m.loss; },
       .images = &observe::UsageLine::images,
       .done = "trained"},
      {.title = "Validation loss",
       .unit = "",
       .smooth = false,
       .logarithmic = true,
       .value = [](const StepMetrics& m) { return m.validation_loss.value_or(kMissing); },
       .images = &observe::UsageLine::validation,
       .done = "validated"},
      {"Learning rate", "", false, false, [](const StepMetrics& m) { return m.learning_rate; }},
      {"Gradient norm", "", true, true, [](const StepMetrics& m) { return m.gradient_norm; }},
      {"Throughput", "images per second", true, false, [](const StepMetrics& m) { return m.images_per_second; }},
      {"Highest memory of a rank so far", "GB", false, false,
       [](const StepMetrics& m) { return kGiga * static_cast<double>(m.peak_memory_bytes); }},
      {"Memory of hosts", "GB", false, false,
       [](const StepMetrics& m) { return kGiga * bytes_of(m.host_memory_bytes); }},
      {"Memory of devices", "GB", false, false,
       [](const StepMetrics& m) { return kGiga * bytes_of(m.device_memory_bytes); }},
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

double value_of(const observe::NamedValues& values, const std::string& name) {
  const auto found = std::ranges::find(values, name, &std::pair<std::string, double>::first);
  return found == values.end() ? kMissing : found->second;
}

using NamedMember = observe::NamedValues StepMetrics::*;

/// The names that a metric has in any step, in the order in which they appear.
std::vector<std::string> series_names(const RunRecord& run, NamedMember member) {
  std::vector<std::string> names;
  for (const StepMetrics& one : run.metrics) {
    for (const auto& [name, value] : one.*member) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

/// A curve for each name, all of one run.
void add_named(const RunRecord& run, const std::string& title, NamedMember member, bool named,
               std::vector<Chart>& charts) {
  constexpr std::size_t kMostCurves = 32;
  Chart chart{.title = title + (named ? ": " + run.label : std::string()), .logarithmic = true};
  for (const std::string& name : series_names(run, member)) {
    if (chart.series.size() == kMostCurves) {
      chart.note = fmt::format("the first {}", kMostCurves);
      break;
    }
    Curve curve = curve_of(
        run, [&](const StepMetrics& m) { return value_of(m.*member, name); }, /*smooth=*/false);
    if (!curve.x.empty()) chart.series.push_back({name, std::move(curve), chart.series.size()});
  }
  if (!chart.series.empty()) charts.push_back(std::move(chart));
}

/// A chart for each number that programs have logged of their own, of all runs that have it.
void add_own(const std::vector<RunRecord>& runs, std::vector<Chart>& charts) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) {
    for (const std::string& name : series_names(run, &StepMetrics::own)) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    Chart chart{.title = name, .note = "logged by the program"};
    for (std::size_t place = 0; place < runs.size(); ++place) {
      const RunRecord& run = runs[place];
      Curve curve = curve_of(
          run, [&](const StepMetrics& m) { return value_of(m.own, name); }, /*smooth=*/false);
      if (!curve.x.empty()) chart.series.push_back({run.label, std::move(curve), place});
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
}

void add_quartiles(const RunRecord& run, bool named, std::vector<Chart>& charts) {
  constexpr std::array kNames = {"lowest noise", "second quarter", "third quarter", "highest noise"};
  Chart chart{.title = "Loss by noise level" + (named ? ": " + run.label : std::string()),
              .unit = "",
              .note = std::string(kMovingMean) + ", by quarter of the timesteps",
              .logarithmic = true,
              .series = {}};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    Curve curve = curve_of(
        run, [i](const StepMetrics& m) { return m.loss_quartiles.at(i); }, /*smooth=*/true);
    if (!curve.x.empty()) chart.series.push_back({kNames.at(i), std::move(curve), i});
  }
  if (!chart.series.empty()) charts.push_back(std::move(chart));
}

/// Keys of [diffusion] by which only sampling is changed.
bool is_of_sampling(std::string_view path) {
  constexpr std::array kKeys = {"variance_type",
                                "clip_sample",
                                "clip_sample_range",
                                "timestep_spacing",
                                "steps_offset",
                                "thresholding",
                                "dynamic_thresholding_ratio",
                                "sample_max_value",
                                "sigma_min",
                                "sigma_max",
                                "rho"};
  return std::ranges::any_of(kKeys, [path](const char* key) { return path == fmt::format("diffusion.{}", key); });
}

/// The keys of [diffusion] that the losses depend on, and in which the runs differ; of other formulations only that.
std::vector<std::string> differing_keys(const std::vector<RunRecord>& runs) {
  std::vector<std::string> found;
  for (const RunRecord& run : runs) {
    for (const Setting& one : run.settings) {
      if (!one.path.starts_with("diffusion.") || is_of_sampling(one.path)) continue;
      const bool differs = std::ranges::any_of(runs, [&](const RunRecord& other) {
        return !other.settings.empty() && other.setting(one.path) != one.value;
      });
      if (differs && std::ranges::find(found, one.path) == found.end()) found.push_back(one.path);
    }
  }
  const auto formulation = std::ranges::find(found, "diffusion.formulation");
  return formulation == found.end() ? found : std::vector<std::string>{*formulation};
}

/// Whether the last starts of the runs name different sets; one that names none is passed over.
bool sets_differ(const std::vector<RunRecord>& runs, std::string observe::UsageLine::*member) {
  std::set<std::string> names;
  for (const RunRecord& run : runs) {
    if (!run.usage.empty() && !(run.usage.back().*member).empty()) names.insert(run.usage.back().*member);
  }
  return names.size() > 1;
}

/// Why the losses of the runs cannot be compared; "": they can be, as far as is known.
std::string incomparable(const std::vector<RunRecord>& runs, std::string observe::UsageLine::*images,
                         std::string_view done) {
  std::vector<std::string> reasons = differing_keys(runs);
  if (sets_differ(runs, images)) reasons.push_back(fmt::format("the images that they {} on", done));
  if (reasons.empty()) return "";
  return fmt::format("not comparable, since the runs differ in {}", fmt::join(reasons, ", "));
}

void add_note(const std::string& note, Chart& chart) {
  if (note.empty()) return;
  chart.note += (chart.note.empty() ? "" : "; ") + note;
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
    for (std::size_t place = 0; place < runs.size(); ++place) {
      const RunRecord& run = runs[place];
      Curve curve = curve_of(run, kind.value, kind.smooth, kind.most);
      if (!curve.x.empty()) chart.series.push_back({run.label, std::move(curve), place});
    }
    if (chart.series.size() > 1 && kind.images != nullptr) add_note(incomparable(runs, kind.images, kind.done), chart);
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  add_own(runs, charts);
  const bool named = runs.size() > 1;
  for (const RunRecord& run : runs) {
    add_quartiles(run, named, charts);
    add_named(run, "Validation loss by noise level", &StepMetrics::validation_loss_levels, named, charts);
    add_named(run, "Validation loss by variable", &StepMetrics::validation_loss_variables, named, charts);
    add_named(run, "Gradient norm by block", &StepMetrics::gradient_norm_blocks, named, charts);
    add_named(run, "Weight norm by block", &StepMetrics::weight_norm_blocks, named, charts);
  }
  return charts;
}

}  // namespace ddpm::report
