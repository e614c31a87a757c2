#include "observe/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"

namespace ddpm::observe {
namespace {

using M = StepMetrics;

constexpr std::array kMetrics = {
    Metric{"step", "", "", "the optimizer step; the first is 1", &M::step},
    Metric{"images_seen", "images", "", "since the run began, over all ranks", &M::images_seen},
    Metric{"epoch", "", "train/epoch", "passes over the training set since the run began", &M::epoch},
    Metric{"loss", "", "train/loss", "mean over the step's global batch", &M::loss},
    Metric{"learning_rate", "", "train/learning_rate", "the one that the step's update used", &M::learning_rate},
    Metric{"grad_norm", "", "train/grad_norm", "norm of the global batch's gradient, before clipping",
           &M::gradient_norm},
    Metric{"loss_scale", "", "train/loss_scale", "the loss scale of fp16; otherwise 1", &M::loss_scale},
    Metric{"images_per_second", "images/s", "speed/images_per_second", "over all ranks", &M::images_per_second},
    Metric{"seconds_per_step", "s", "speed/seconds_per_step", "time of the step", &M::seconds_per_step},
    Metric{"data_wait_fraction", "", "speed/data_wait_fraction", "share of the time that was spent waiting for images",
           &M::data_wait_fraction},
    Metric{"comm_wait_fraction", "", "speed/comm_wait_fraction",
           "share of the time that was spent waiting for other ranks", &M::comm_wait_fraction},
    Metric{"peak_memory_bytes", "bytes", "speed/peak_memory_bytes",
           "highest so far on any rank: resident on the host, or allocated on a GPU that computes",
           &M::peak_memory_bytes},
    Metric{"host_memory_bytes", "bytes", "memory/host", "resident on the host now, on the rank that has most",
           &M::host_memory_bytes},
    Metric{"host_peak_memory_bytes", "bytes", "memory/host_peak",
           "highest so far that was resident on the host, on the rank that had most", &M::host_peak_memory_bytes},
    Metric{"device_memory_bytes", "bytes", "memory/device", "allocated now on a GPU that computes",
           &M::device_memory_bytes},
    Metric{"device_peak_memory_bytes", "bytes", "memory/device_peak",
           "highest so far that was allocated on a GPU that computes", &M::device_peak_memory_bytes},
    Metric{"loss_quartiles", "", "train/loss_quartile",
           "mean loss by quarter of the timestep range, low timesteps first; `null` where no image fell",
           &M::loss_quartiles},
    Metric{"validation_loss", "", "validation/loss", "of a validated step only", &M::validation_loss},
    Metric{"validation_loss_levels", "", "validation/loss_level",
           "with `validation.levels`: an object, the loss at each level of noise; `t_62`: timestep 62",
           &M::validation_loss_levels},
    Metric{"validation_loss_variables", "", "validation/loss_variable",
           "of float images: an object, the loss of each variable, as the mean over all levels",
           &M::validation_loss_variables},
    Metric{"grad_norm_blocks", "", "train/grad_norm_block",
           "with `logging.norms`: an object, the norm of the gradient of each block, before clipping",
           &M::gradient_norm_blocks},
    Metric{"weight_norm_blocks", "", "train/weight_norm_block",
           "with `logging.norms`: an object, the norm of the trained weights of each block after the step",
           &M::weight_norm_blocks},
};

// --- writing

base::OrderedJson written(int64_t value) { return value; }
base::OrderedJson written(double value) { return value; }
base::OrderedJson written(const std::array<double, 4>& values) { return values; }
template <typename T>
base::OrderedJson written(const std::optional<T>& value) {
  return value.value();
}
base::OrderedJson written(const NamedValues& values) {
  base::OrderedJson object;
  for (const auto& [name, value] : values) object[name] = value;
  return object;
}

template <typename T>
bool is_set(const T& /*value*/) {
  return true;
}
template <typename T>
bool is_set(const std::optional<T>& value) {
  return value.has_value();
}
bool is_set(const NamedValues& values) { return !values.empty(); }

/// What the names and values take of a line, with quotes, colons and commas.
std::size_t bytes_of(const NamedValues& values) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : values)
    bytes += base::Json(name).dump().size() + base::Json(value).dump().size() + 2;
  return bytes;
}

// --- reading

/// The value of a key that is absent.
void clear(int64_t& value) { value = 0; }
void clear(double& value) { value = std::numeric_limits<double>::quiet_NaN(); }
void clear(std::array<double, 4>& values) { values.fill(std::numeric_limits<double>::quiet_NaN()); }
template <typename T>
void clear(std::optional<T>& value) {
  value.reset();
}
void clear(NamedValues& values) { values.clear(); }

/// Whether `json` is a value of the kind.
bool read(const base::OrderedJson& json, int64_t& value) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() && !std::in_range<int64_t>(json.get<uint64_t>())) return false;
  value = json.get<int64_t>();
  return true;
}
bool read(const base::OrderedJson& json, double& value) {
  clear(value);
  if (json.is_null()) return true;
  if (!json.is_number()) return false;
  value = json.get<double>();
  return true;
}
bool read(const base::OrderedJson& json, std::array<double, 4>& values) {
  if (!json.is_array() || json.size() != values.size()) return false;
  return std::equal(json.begin(), json.end(), values.begin(),
                    [](const base::OrderedJson& element, double& value) { return read(element, value); });
}
template <typename T>
bool read(const base::OrderedJson& json, std::optional<T>& value) {
  return read(json, value.emplace());
}
bool read(const base::OrderedJson& json, NamedValues& values) {
  if (!json.is_object()) return false;
  for (const auto& [name, value] : json.items()) {
    if (!read(value, values.emplace_back(name, 0.0).second)) return false;
  }
  return true;
}

// --- TensorBoard

void append(std::vector<Scalar>& scalars, std::string_view tag, int64_t value) {
  scalars.push_back({std::string(tag), static_cast<double>(value)});
}
void append(std::vector<Scalar>& scalars, std::string_view tag, double value) {
  if (!std::isnan(value)) scalars.push_back({std::string(tag), value});
}
void append(std::vector<Scalar>& scalars, std::string_view tag, const std::array<double, 4>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) append(scalars, fmt::format("{}_{}", tag, i + 1), values.at(i));
}
template <typename T>
void append(std::vector<Scalar>& scalars, std::string_view tag, const std::optional<T>& value) {
  if (value) append(scalars, tag, *value);
}
void append(std::vector<Scalar>& scalars, std::string_view tag, const NamedValues& values) {
  for (const auto& [name, value] : values) append(scalars, fmt::format("{}/{}", tag, name), value);
}

// --- a table

using Cells = std::vector<std::pair<std::string, std::string>>;

void append(Cells& cells, std::string key, int64_t value) {
  cells.emplace_back(std::move(key), fmt::format("{}", value));
}
void append(Cells& cells, std::string key, double value) {
  cells.emplace_back(std::move(key), std::isfinite(value) ? fmt::format("{}", value) : "");
}
void append(Cells& cells, const std::string& key, const std::array<double, 4>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) append(cells, fmt::format("{}_{}", key, i + 1), values.at(i));
}
template <typename T>
void append(Cells& cells, std::string key, const std::optional<T>& value) {
  if (value) append(cells, std::move(key), *value);
}
void append(Cells& cells, const std::string& key, const NamedValues& values) {
  for (const auto& [name, value] : values) append(cells, fmt::format("{}.{}", key, name), value);
}

/// Whether `name` is the metric's key, or that of one of its cells.
bool is_taken_by(const Metric& metric, std::string_view name) {
  if (!name.starts_with(metric.key)) return false;
  const std::string_view rest = name.substr(metric.key.size());
  if (rest.empty()) return true;
  if (std::holds_alternative<NamedValues M::*>(metric.member)) return rest.front() == '.';
  const bool is_list = std::holds_alternative<std::array<double, 4> M::*>(metric.member);
  return is_list && rest.size() == 2 && rest[0] == '_' && rest[1] >= '1' && rest[1] <= '4';
}

}  // namespace

std::span<const Metric> metric_table() { return kMetrics; }

std::string own_name_problem(std::string_view name) {
  constexpr std::size_t kLongest = 128;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  if (name.empty() || name.size() > kLongest)
    return fmt::format("has {} characters; wanted: 1 to {}", name.size(), kLongest);
  if (name.find_first_not_of(kLetters) != std::string_view::npos || name.front() == '.' || name.front() == '/') {
    return "has other characters than letters, digits and _ - . /, or begins with one of the last two";
  }
  const bool taken = std::ranges::any_of(kMetrics, [name](const Metric& metric) { return is_taken_by(metric, name); });
  return taken ? "is a name that metrics.jsonl or metrics.csv has already" : "";
}

std::vector<std::string> fit_into_line(StepMetrics& metrics) {
  constexpr std::size_t kOthers = 4096;  // all that is no named value takes 2 KB at most
  struct List {
    std::string_view key;
    NamedValues M::*member;
    std::size_t bytes;
  };
  std::vector<List> lists = {{"own", &M::own, bytes_of(metrics.own)}};
  for (const Metric& metric : kMetrics) {
    const auto* member = std::get_if<NamedValues M::*>(&metric.member);
    if (member != nullptr) lists.push_back({metric.key, *member, bytes_of(metrics.*(*member))});
  }
  std::ranges::stable_sort(lists, std::ranges::greater{}, &List::bytes);
  std::size_t bytes = kOthers;
  for (const List& list : lists) bytes += list.bytes;
  std::vector<std::string> left_out;
  for (const List& list : lists) {
    if (bytes <= kMostLineBytes) break;
    (metrics.*list.member).clear();
    bytes -= list.bytes;
    left_out.emplace_back(list.key);
  }
  return left_out;
}

std::string to_json_line(const StepMetrics& metrics) {
  base::OrderedJson object;
  for (const Metric& metric : kMetrics) {
    std::visit(
        [&](auto member) {
          if (is_set(metrics.*member)) object[std::string(metric.key)] = written(metrics.*member);
        },
        metric.member);
  }
  for (const auto& [name, value] : metrics.own) object[name] = value;
  return object.dump();
}

std::optional<StepMetrics> parse_json_line(std::string_view line) {
  constexpr base::JsonLimits kLine{.max_bytes = kMostLineBytes, .max_depth = 4};
  base::OrderedJson object;
  try {
    object = base::parse_ordered_json(line, kLine);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  if (!object.is_object() || !object.contains("step")) return std::nullopt;
  StepMetrics metrics;
  const auto take = [&](const Metric& metric) {
    return std::visit(
        [&](auto member) {
          clear(metrics.*member);
          const auto found = object.find(metric.key);
          return found == object.end() || read(*found, metrics.*member);
        },
        metric.member);
  };
  if (!std::ranges::all_of(kMetrics, take)) return std::nullopt;
  for (const auto& [name, value] : object.items()) {
    if ((!value.is_number() && !value.is_null()) || !own_name_problem(name).empty()) continue;
    metrics.own.emplace_back(name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  return metrics;
}

std::vector<Scalar> scalars_of(const StepMetrics& metrics) {
  std::vector<Scalar> scalars;
  for (const Metric& metric : kMetrics) {
    if (metric.tag.empty()) continue;
    std::visit([&](auto member) { append(scalars, metric.tag, metrics.*member); }, metric.member);
  }
  for (const auto& [name, value] : metrics.own) append(scalars, "own/" + name, value);
  return scalars;
}

std::vector<std::pair<std::string, std::string>> cells_of(const StepMetrics& metrics) {
  Cells cells;
  for (const Metric& metric : kMetrics) {
    std::visit([&](auto member) { append(cells, std::string(metric.key), metrics.*member); }, metric.member);
  }
  for (const auto& [name, value] : metrics.own) append(cells, name, value);
  return cells;
}

}  // namespace ddpm::observe
