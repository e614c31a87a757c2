// RUN/evaluation/NAME.json: what `ddpm eval … --output` has measured.
//
//   {"format": 1, "kind": "fields", "data": "…", "samples": "…", "count": 10000,
//    "metrics": [{"name": "bias", "variable": "u", "level": "…", "value": 0.1, "low": …, "high": …, "standard_error":
//    …,
//                 "reference": …, "sigmas": …, "verdict": "…"}, …],
//    "comparisons": [{…}, …]}
//
// Keys that are not known here are passed over.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddpm::report {

struct EvaluatedMetric {
  std::string name = {};
  std::string variable = {};  ///< "" where the metric is of no single one
  std::string level = {};     ///< "", or what the key holds, a number too
  std::optional<double> value = {};
  std::optional<double> low = {};
  std::optional<double> high = {};
  std::optional<double> standard_error = {};
  std::optional<double> reference = {};
  std::optional<double> sigmas = {};
  std::string verdict = {};
};

struct Evaluation {
  std::string file = {};  ///< "exam.json"
  std::string kind = {};
  std::string data = {};
  std::string samples = {};
  std::string count = {};
  std::vector<EvaluatedMetric> metrics = {};
  /// Each comparison's keys with what they hold, in the order of the file's keys.
  std::vector<std::vector<std::pair<std::string, std::string>>> comparisons = {};
};

/// Throws base::OutputError, which begins with `place`, for what is not such a file.
Evaluation parse_evaluation(std::string_view text, const std::string& place);

}  // namespace ddpm::report
