#include "data/prepare/bad_limit.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "base/parse_number.h"

namespace ddpm::data::prepare {
namespace {

std::optional<double> percentage_of(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  const auto value = base::parse_number<double>(text.substr(0, text.size() - 1));
  return value && *value >= 0.0 && *value <= 100.0 ? value : std::nullopt;
}

}  // namespace

double percentage(std::string_view option, std::string_view text) {
  const auto value = percentage_of(text);
  if (value && *value < 100.0) return *value;
  throw base::ConfigError("{} {}: wanted a percentage such as 5%, at least 0% and less than 100%", option, text);
}

BadLimit::BadLimit(std::string_view text) : text_(text), limited_(true) {
  if (const auto share = percentage_of(text)) {
    is_percentage_ = true;
    value_ = *share;
    return;
  }
  const auto count = base::parse_number<int64_t>(text);
  if (!count || *count < 0) {
    throw base::ConfigError("--max-bad {}: wanted a number of pictures such as 12, or a percentage such as 0.5%", text);
  }
  value_ = static_cast<double>(*count);
}

int64_t BadLimit::of(int64_t total) const {
  if (!limited_) return total;
  const double most = is_percentage_ ? std::floor(value_ / 100.0 * static_cast<double>(total)) : value_;
  return static_cast<int64_t>(std::min(most, static_cast<double>(total)));
}

void BadLimit::check(int64_t bad, int64_t total, std::string_view example) const {
  if (bad <= of(total)) return;
  throw base::DatasetError("--max-bad {}: more than {} of {} cannot be used; one is {}", text_,
                           base::grouped(of(total)), base::counted(total, "picture"), example);
}

}  // namespace ddpm::data::prepare
