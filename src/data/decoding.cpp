#include "data/decoding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/counted.h"
#include "base/error.h"

namespace ddpm::data {
namespace {

using base::DatasetError;
using h5::Attribute;
using h5::Element;

/// What NetCDF fills new variables with; of bytes it is an ordinary value.
std::optional<double> netcdf_fill(Element element) {
  constexpr double kFloat = 9.9692099683868690e+36;
  switch (element) {
    case Element::i16:
      return -32767.0;
    case Element::u16:
      return 65535.0;
    case Element::i32:
      return -2147483647.0;
    case Element::u32:
      return 4294967295.0;
    case Element::f32:
    case Element::f64:
      return kFloat;
    default:
      return std::nullopt;
  }
}

/// NetCDF's fill values of integers of 64 bits, which no double holds.
constexpr uint64_t kFillOfInt64 = uint64_t{1} << 63U | 2U;  // -9223372036854775806
constexpr uint64_t kFillOfUInt64 = std::numeric_limits<uint64_t>::max() - 1;

bool is_long(Element element) { return element == Element::i64 || element == Element::u64; }

Element unsigned_of(Element element) {
  switch (element) {
    case Element::i8:
      return Element::u8;
    case Element::i16:
      return Element::u16;
    case Element::i32:
      return Element::u32;
    case Element::i64:
      return Element::u64;
    default:
      return element;
  }
}

/// Numbers of an attribute; none where it is absent.
std::vector<double> attribute_numbers(const h5::Array& array, const std::string& name) {
  const std::optional<Attribute> found = array.find_attribute(name);
  if (!found || found->numbers.empty()) return {};
  return found->numbers;
}

/// One number that scales values, and whether it is a float32.
struct Factor {
  double value = 0.0;
  bool is_float = false;
};

std::optional<Factor> factor_of(const h5::Array& array, const std::string& name) {
  const std::optional<Attribute> found = array.find_attribute(name);
  if (!found) return std::nullopt;
  if (found->numbers.size() != 1 || !std::isfinite(found->numbers.front())) {
    const std::vector<double>& numbers = found->numbers;
    throw DatasetError("{}@{}: {}; one finite number is wanted", array.label(), name,
                       numbers.size() == 1 ? fmt::format("is {}", numbers.front())
                                           : "has " + base::counted(std::ssize(numbers), "number"));
  }
  return Factor{.value = found->numbers.front(), .is_float = found->element == Element::f32};
}

/// Whether NumPy computes with values of this type and float32 numbers in float32.
bool is_small(Element element) { return element == Element::f32 || h5::size_of(element) < sizeof(float); }

template <typename T>
bool holds(double& value) {
  if constexpr (std::is_integral_v<T>) {
    constexpr double kPastEnd =
        2.0 * static_cast<double>(uint64_t{1} << (8 * sizeof(T) - 1)) / (std::is_signed_v<T> ? 2.0 : 1.0);
    return value == std::trunc(value) && value >= static_cast<double>(std::numeric_limits<T>::min()) &&
           value < kPastEnd;
  } else {
    value = static_cast<double>(static_cast<T>(value));
    return true;
  }
}

/// Calls `work` with a value of the element's type.
template <typename Work>
auto with_type(Element element, const Work& work) {
  switch (element) {
    case Element::u8:
      return work(uint8_t{});
    case Element::u16:
      return work(uint16_t{});
    case Element::u32:
      return work(uint32_t{});
    case Element::u64:
      return work(uint64_t{});
    case Element::i8:
      return work(int8_t{});
    case Element::i16:
      return work(int16_t{});
    case Element::i32:
      return work(int32_t{});
    case Element::i64:
      return work(int64_t{});
    case Element::f64:
      return work(double{});
    default:
      return work(float{});
  }
}

}  // namespace

Decoding Decoding::of(const h5::Array& array, bool is_netcdf) {
  Decoding d;
  d.stored_ = d.element_ = array.element();
  if (d.stored_ == Element::other) {
    throw DatasetError("{}: its elements are of an unusual type (float16, bool, text and the like), numbers are wanted",
                       array.label());
  }
  const std::optional<Attribute> turned = array.find_attribute("_Unsigned");
  const bool is_unsigned =
      turned && turned->texts.size() == 1 && (turned->texts.front() == "true" || turned->texts.front() == "True");
  if (is_unsigned) d.element_ = unsigned_of(d.stored_);
  d.find_missing(array, is_netcdf);
  const std::optional<Factor> scale = factor_of(array, "scale_factor");
  const std::optional<Factor> offset = factor_of(array, "add_offset");
  if (scale && scale->value == 0.0) {
    throw base::DatasetError("{}: its scale_factor is 0, which makes all values alike; another number is wanted",
                             array.label());
  }
  d.scales_ = scale.has_value();
  d.shifts_ = offset.has_value();
  d.scale_ = scale ? scale->value : 1.0;
  d.offset_ = offset ? offset->value : 0.0;
  d.rounds_product_ = scale && scale->is_float && is_small(d.element_);
  return d;
}

void Decoding::find_missing(const h5::Array& array, bool is_netcdf) {
  add_missing(array, "missing_value");
  const bool filled = add_missing(array, "_FillValue");
  // No value that is taken for an unsigned one equals what NetCDF fills signed ones with.
  if (!filled && is_netcdf && stored_ == element_) {
    if (const std::optional<double> usual = netcdf_fill(element_)) add_missing({*usual});
    if (element_ == Element::i64) missing_words_.push_back(kFillOfInt64);
    if (element_ == Element::u64) missing_words_.push_back(kFillOfUInt64);
  }
  std::vector<double> range = attribute_numbers(array, "valid_range");
  const bool both = range.size() == 2;
  const std::vector<double> least = both ? std::vector{range[0]} : attribute_numbers(array, "valid_min");
  const std::vector<double> most = both ? std::vector{range[1]} : attribute_numbers(array, "valid_max");
  if (double value = least.size() == 1 ? least[0] : least_; least.size() == 1 && hold(value)) least_ = value;
  if (double value = most.size() == 1 ? most[0] : most_; most.size() == 1 && hold(value)) most_ = value;
}

bool Decoding::add_missing(const h5::Array& array, const std::string& name) {
  const std::optional<Attribute> found = array.find_attribute(name);
  if (!found || found->numbers.empty()) return false;
  if (is_long(element_) && !found->words.empty()) {
    missing_words_.insert(missing_words_.end(), found->words.begin(), found->words.end());
  } else {
    add_missing(found->numbers);
  }
  return true;
}

void Decoding::add_missing(const std::vector<double>& values) {
  for (double value : values) {
    if (hold(value) && !std::isnan(value) && std::ranges::count(missing_, value) == 0) missing_.push_back(value);
  }
}

bool Decoding::hold(double& value) const {
  if (!with_type(stored_, [&](auto zero) { return holds<decltype(zero)>(value); })) return false;
  if (stored_ == element_ || value >= 0.0) return true;
  value += 2.0 * static_cast<double>(uint64_t{1} << (8 * h5::size_of(stored_) - 1));
  return true;
}

template <typename T>
void Decoding::decode_as(std::span<const std::byte> stored, std::span<float> out) const {
  std::vector<T> values(out.size());
  std::memcpy(values.data(), stored.data(), stored.size());
  if (!scales_ && !shifts_) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i]);
  } else {
    for (std::size_t i = 0; i < out.size(); ++i) {
      double x = static_cast<double>(values[i]);
      if (scales_) x *= scale_;
      if (rounds_product_) x = static_cast<double>(static_cast<float>(x));
      if (shifts_) x += offset_;
      out[i] = static_cast<float>(x);
    }
  }
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const double missing : missing_) {
    const auto value = static_cast<T>(missing);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = values[i] == value ? kNan : out[i];
  }
  if constexpr (std::is_integral_v<T> && sizeof(T) == sizeof(uint64_t)) {
    for (const uint64_t missing : missing_words_) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint64_t>(values[i]) == missing ? kNan : out[i];
    }
  }
  if (std::isinf(least_) && std::isinf(most_)) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    if (value < least_ || value > most_) out[i] = kNan;
  }
}

void Decoding::decode(std::span<const std::byte> stored, std::span<float> out) const {
  DDPM_CHECK(stored.size() == out.size() * element_bytes(), "{} bytes for {} values of {}", stored.size(), out.size(),
             element_bytes());
  with_type(element_, [&](auto zero) { decode_as<decltype(zero)>(stored, out); });
}

std::vector<double> numbers_of(std::span<const std::byte> stored, h5::Element element) {
  std::vector<double> numbers(stored.size() / h5::size_of(element));
  with_type(element, [&](auto value) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(&value, &stored[i * sizeof(value)], sizeof(value));
      numbers[i] = static_cast<double>(value);
    }
  });
  return numbers;
}

std::string Decoding::text() const {
  return fmt::format("{} {} missing [{}]{} valid {} to {} scale {} offset {} rounded {}", h5::name_of(stored_),
                     h5::name_of(element_), fmt::join(missing_, ", "),
                     missing_words_.empty() ? "" : fmt::format(" [{}]", fmt::join(missing_words_, ", ")), least_, most_,
                     scale_, offset_, rounds_product_);
}

}  // namespace ddpm::data
