// RUN/evaluation/NAME.json: what `ddpm eval … --output` has measured.
//
// Its keys are those of eval/result.h. Keys that are not known here are passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddpm::report {

/// Most bytes of such a file.
inline constexpr uint64_t kMostEvaluationBytes = uint64_t{64} << 20U;

struct EvaluatedMetric {
  std::string name = {};
  std::string variable = {};  ///< "" where the metric is of no single one
  std::string level = {};     ///< "", or what the key holds, a number too
  std::string unit = {};
  std::optional<double> value = {};
  std::optional<double> low = {};
  std::optional<double> high = {};
  std::optional<double> standard_error = {};
  std::optional<double> reference = {};
  std::optional<double> sigmas = {};  ///< infinite where there is a deviation and no error
  std::optional<double> p_value = {};
  std::string verdict = {};
};

/// How two sample sets differ in a metric of which less is better.
struct EvaluatedComparison {
  std::string metric = {};
  std::string variable = {};
  std::string level = {};
  std::optional<double> a = {};
  std::optional<double> b = {};
  std::optional<double> difference = {};
  std::optional<double> standard_error = {};
  std::optional<double> p_adjusted = {};
  std::string verdict = {};
};

struct Evaluation {
  std::string file = {};  ///< "exam.json"
  std::string kind = {};
  std::string data = {};
  std::string samples = {};
  std::string against = {};  ///< B, which the samples are compared with
  std::string count = {};
  std::string weights = {};                   ///< "step 60, ema:0 weights"; "" where the file does not say
  std::string against_weights = {};           ///< those of `against`
  std::optional<int64_t> step = {};           ///< the step of `weights`, where they are of a checkpoint
  double written = 0.0;                       ///< seconds since 1970, by the clock that stamps the folder's files
  std::vector<EvaluatedMetric> metrics = {};  ///< without those that tables leave out ("detail")
  std::vector<EvaluatedComparison> comparisons = {};
  std::vector<std::string> notes = {};  ///< what has to be known to read the numbers
};

/// Throws base::OutputError, which begins with `place`, for what is not such a file.
Evaluation parse_evaluation(std::string_view text, const std::string& place);

}  // namespace ddpm::report
