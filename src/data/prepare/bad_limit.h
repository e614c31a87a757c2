// How many pictures of a source may be unusable before a set is not made of the others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddpm::data::prepare {

/// "12": so many pictures; "0.5%": such a share of all; absent: any number.
class BadLimit {
 public:
  BadLimit() = default;
  /// Throws ConfigError for any other text.
  explicit BadLimit(std::string_view text);

  /// The most of `total` pictures that may be unusable.
  [[nodiscard]] int64_t of(int64_t total) const;
  /// Throws DatasetError when `bad` of `total` pictures are too many. `example` is one of them, with its reason.
  void check(int64_t bad, int64_t total, std::string_view example) const;
  friend bool operator==(const BadLimit&, const BadLimit&) = default;

 private:
  std::string text_;
  bool limited_ = false;
  bool is_percentage_ = false;
  double value_ = 0.0;
};

/// The number before the % of "5%", from 0 to 100. Throws ConfigError, which names `option`, for any other text.
double percentage(std::string_view option, std::string_view text);

}  // namespace ddpm::data::prepare
