#include "run/weight_choice.h"

#include <charconv>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "optim/post_hoc.h"

namespace ddpm::run {

WeightChoice WeightChoice::parse(const std::string& text, const std::string& option) {
  if (text == kRawWeights) return {};
  if (text == kFirstAverage) return {.ema = 0};
  if (text.starts_with("ema:")) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(text.data() + 4, text.data() + text.size(), index);
    if (error == std::errc{} && end == text.data() + text.size()) return {.ema = index};
  }
  constexpr std::string_view kLength = "length:";
  if (text.starts_with(kLength)) {
    double length = 0.0;
    const auto [end, error] = std::from_chars(text.data() + kLength.size(), text.data() + text.size(), length);
    if (error == std::errc{} && end == text.data() + text.size() && length >= optim::kLeastLength &&
        length <= optim::kGreatestLength) {
      return {.relative_length = length};
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

std::string WeightChoice::tensor_prefix() const { return ema ? fmt::format("ema.{}/", *ema) : "model/"; }

}  // namespace ddpm::run
