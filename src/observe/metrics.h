// What is known of one optimizer step, and the one table that says how each metric is called, stored and documented.
// RUN/metrics.jsonl, TensorBoard's scalars, the reader and the table of docs/running.md follow from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddpm::observe {

/// Values by name, in an order of their own: "down_blocks.0": 0.25. Written when there are any.
using NamedValues = std::vector<std::pair<std::string, double>>;

/// The table in metrics.cpp says what each member means. A value that does not exist (no image fell into a quarter of
/// the timestep range) is NaN.
struct StepMetrics {
  int64_t step = 0;
  int64_t images_seen = 0;
  std::optional<double> epoch = {};
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double loss_scale = 1;
  double images_per_second = 0;
  double seconds_per_step = 0;
  double data_wait_fraction = 0;
  double comm_wait_fraction = 0;
  int64_t peak_memory_bytes = 0;
  std::optional<int64_t> host_memory_bytes = {};
  std::optional<int64_t> host_peak_memory_bytes = {};
  std::optional<int64_t> device_memory_bytes = {};
  std::optional<int64_t> device_peak_memory_bytes = {};
  std::array<double, 4> loss_quartiles{};
  std::optional<double> validation_loss = {};
  NamedValues validation_loss_levels = {};
  NamedValues validation_loss_variables = {};
  NamedValues gradient_norm_blocks = {};
  NamedValues weight_norm_blocks = {};
  /// What a program that trains a model of its own logs beside these, by name: after them in the line, and in
  /// TensorBoard as own/NAME.
  NamedValues own = {};
};

struct Metric {
  /// An optional member is written only when it is set, and named values when there are any. Other values are always
  /// written, and null when not finite.
  using Member = std::variant<int64_t StepMetrics::*, double StepMetrics::*, std::array<double, 4> StepMetrics::*,
                              std::optional<int64_t> StepMetrics::*, std::optional<double> StepMetrics::*,
                              NamedValues StepMetrics::*>;

  std::string_view key;   ///< in metrics.jsonl
  std::string_view unit;  ///< "" for a number without one
  /// In TensorBoard, where element i of a list is TAG_i and a named value TAG/NAME; "": not there.
  std::string_view tag;
  std::string_view meaning;  ///< Markdown
  Member member;
};

/// All metrics, in the order of a line.
std::span<const Metric> metric_table();

/// Why `name` cannot be one of StepMetrics::own, as the end of a sentence; "" if it can: letters, digits and _ - . / of
/// which the first is neither a dot nor a slash, at most 128, and neither a key of the table nor the name of a cell
/// (cells_of) that a key may have.
std::string own_name_problem(std::string_view name);

/// Most bytes of a line that is read: parse_json_line() takes no longer one.
inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 20U;

/// Empties named values, those that take most first, until the line of `metrics` has at most kMostLineBytes. Returns
/// the keys of what is missing then, "own" for StepMetrics::own; of lines as they usually are, none.
std::vector<std::string> fit_into_line(StepMetrics& metrics);

/// `metrics` as one line of JSON, without the line's end.
std::string to_json_line(const StepMetrics& metrics);

/// What to_json_line() wrote, or nothing when `line` is not a whole metrics object: one with an integer `step`, and in
/// which known keys have values of their kind. Unknown keys with numbers are a program's own, others are ignored. What
/// is null or absent is NaN, or 0 for an integer, or unset for an optional that is absent.
std::optional<StepMetrics> parse_json_line(std::string_view line);

struct Scalar {
  std::string tag;  ///< "train/loss"
  double value = 0;
};

/// The scalars of one step for TensorBoard. NaNs are left out.
std::vector<Scalar> scalars_of(const StepMetrics& metrics);

/// The numbers of one step as cells of a table, with their texts: element i of a list is KEY_i and a named value
/// KEY.NAME. What is not finite is an empty text.
std::vector<std::pair<std::string, std::string>> cells_of(const StepMetrics& metrics);

}  // namespace ddpm::observe
