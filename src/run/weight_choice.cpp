#include "run/weight_choice.h"

#include <string_view>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/parse_number.h"
#include "optim/post_hoc.h"

namespace ddpm::run {

std::string average_prefix(std::size_t average) { return fmt::format("ema.{}/", average); }

WeightChoice WeightChoice::parse(const std::string& text, const std::string& option) {
  if (text == kRawWeights) return {};
  if (text == kFirstAverage) return {.ema = 0};
  constexpr std::string_view kAverage = "ema:";
  constexpr std::string_view kLength = "length:";
  const std::string_view view = text;
  if (view.starts_with(kAverage)) {
    if (const auto index = base::parse_number<std::size_t>(view.substr(kAverage.size()))) return {.ema = *index};
  }
  if (view.starts_with(kLength)) {
    const auto length = base::parse_number<double>(view.substr(kLength.size()));
    if (length && *length >= optim::kLeastLength && *length <= optim::kGreatestLength) {
      return {.relative_length = *length};
    }
  }
  throw base::ConfigError("{} {}: raw, ema, ema:I (I from 0) or length:S (S from {} to {}) is wanted", option, text,
                          optim::kLeastLength, optim::kGreatestLength);
}

WeightChoice WeightChoice::of_run(const std::string& text, const std::string& option, std::size_t averages,
                                  const base::Path& run) {
  if (text.empty()) return averages > 0 ? WeightChoice{.ema = 0} : WeightChoice{};
  const WeightChoice choice = parse(text, option);
  if (!choice.ema || *choice.ema < averages) return choice;
  throw base::ConfigError("{} {}: {} keeps {}", option, text, run.string(), base::counted(averages, "average"));
}

std::string WeightChoice::text() const {
  if (relative_length) return fmt::format("length:{}", *relative_length);
  return ema ? fmt::format("{}:{}", kFirstAverage, *ema) : std::string(kRawWeights);
}

std::string WeightChoice::tensor_prefix() const { return ema ? average_prefix(*ema) : kWeightsPrefix; }

}  // namespace ddpm::run
