// Which weights of a checkpoint a command is about, as --weights says it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"

namespace ddpm::run {

/// The names of the raw weights and of the first average.
inline constexpr std::string_view kRawWeights = "raw";
inline constexpr std::string_view kFirstAverage = "ema";

/// What the names of the raw weights, and of average I, begin with in a checkpoint: see run/snapshot.h.
inline constexpr const char* kWeightsPrefix = "model/";
std::string average_prefix(std::size_t average);  ///< "ema.I/"

/// Says which weights of a checkpoint to take: the raw ones, average I, or the average of relative length S.
struct WeightChoice {
  std::optional<std::size_t> ema = std::nullopt;         ///< none: raw
  std::optional<double> relative_length = std::nullopt;  ///< in place of both: see run/post_hoc_average.h
  /// "raw", "ema" (the first), "ema:I" or "length:S". Throws ConfigError, which begins with `option`, for anything
  /// else.
  static WeightChoice parse(const std::string& text, const std::string& option);
  /// parse() for a run whose checkpoints keep so many averages; "" is the first of them, or raw where there is none.
  /// Throws ConfigError for an average that `run` does not keep.
  static WeightChoice of_run(const std::string& text, const std::string& option, std::size_t averages,
                             const base::Path& run);
  [[nodiscard]] std::string tensor_prefix() const;
  [[nodiscard]] std::string text() const;  ///< as parse() takes it
};

}  // namespace ddpm::run
