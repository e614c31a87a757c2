// What `ddpm eval` finds, of every kind: one JSON object, or tables for people.
//
//   {"format": 1, "kind": "fields", "data": PATH or null, "samples": [PATH...], "against": [PATH...], "count": N,
//    "settings": {...},
//    "metrics": [{"name", "variable", "level", "unit", "value", "low", "high", "standard_error", "method", "units",
//                 "sets", "reference", "reference_error", "exact", "limit", "sigmas", "p_value", "verdict",
//                 "detail"}...],
//    "comparisons": [{"metric", "variable", "level", "a", "b", "difference", "low", "high", "standard_error",
//                     "p_value", "p_adjusted", "verdict"}...],
//    "notes": ["..."...]}
//
// A key that says nothing of a metric is left out; a number that does not exist, such as an interval over one sample,
// is null. Sigmas are "inf" or "-inf" where there is a deviation and no error. `ddpm report` reads what was written to
// RUN/evaluation/*.json.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "eval/estimate.h"

namespace ddpm::eval {

inline constexpr int kResultFormat = 1;

struct Metric {               // NOLINT(bugprone-exception-escape): nlohmann::ordered_json moves without exceptions
  std::string name;           ///< "crps"; lower case, words joined by underscores
  std::string variable = {};  ///< which variable of the field; "": all of them
  base::OrderedJson level;    ///< what the name has several of: a wave number, a threshold, a quartile; null: nothing
  std::string unit = {};
  Estimate estimate;
  /// The exact value, or that of the data, and its standard error where it has one.
  std::optional<double> reference = {};
  std::optional<double> reference_error = {};
  std::optional<double> limit = {};    ///< what the exact value tends to for an infinite lattice
  std::optional<double> sigmas = {};   ///< (value - reference) / error, where that is a test: see against()
  std::optional<double> p_value = {};  ///< set where the metric is the statistic of a test
  std::string verdict = {};
  bool is_exact = false;  ///< the reference is an exact value, from which samples of the theory are some errors off
  bool detail = false;    ///< one of many like it, which tables leave out

  /// Sets the reference and, where the value has an error, the deviation from it in standard errors of the difference.
  Metric& against(double exact, double exact_error = 0.0);
  /// "k 3-4", "0.1 %" or "": the level as people read it.
  [[nodiscard]] std::string level_text() const;
};

/// What was measured.
enum class ResultKind : uint8_t { fields, samples, loss };
constexpr auto names_of(ResultKind /*type*/) { return std::to_array<std::string_view>({"fields", "samples", "loss"}); }

struct Result {
  ResultKind kind;
  std::filesystem::path data = {};
  std::vector<std::filesystem::path> samples = {};
  std::vector<std::filesystem::path> others = {};            ///< those of B, which the samples are compared with
  int64_t count = 0;                                         ///< samples of each set, or images that the loss is of
  base::OrderedJson settings = base::OrderedJson::object();  ///< all else that the numbers depend on
  std::vector<Metric> metrics = {};
  std::vector<Comparison> comparisons = {};
  std::vector<std::string> notes = {};  ///< sentences for people, under the table
};

base::OrderedJson to_json(const Result& result);

/// Tables for people: a row for each metric with its interval, and one for each comparison with its verdict.
std::string to_text(const Result& result);

}  // namespace ddpm::eval
