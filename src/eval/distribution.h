// All values of a variable, so far as quantiles need them: counts in cells, with the least and the greatest value of
// each. A cell is that of float32 numbers which share their sign, exponent and 11 bits of the mantissa: of a value less
// a centre, so that cells are narrow where most values lie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace ddpm::eval {

class Distribution {
 public:
  /// Distributions whose sums are added up have one `centre`.
  explicit Distribution(double centre) : centre_(centre) {}

  /// Adds the valid ones, which are finite.
  void add(std::span<const float> values, std::span<const uint8_t> valid);
  /// Adds what the other ranks have. Collective.
  void share(comm::Communicator& comm);

  /// The value below which a share of all values lies: NumPy's quantile, but that the values within a cell, which
  /// lie within 1/2048 of their distance from the centre, are taken to be equally spaced between its least and its
  /// greatest one. NaN without values.
  [[nodiscard]] double quantile(double share) const;
  [[nodiscard]] int64_t count() const;

 private:
  static constexpr std::size_t kPages = 4096;
  static constexpr std::size_t kCells = 256;
  struct Page {
    std::array<int64_t, kCells> count{};
    std::array<double, kCells> low;
    std::array<double, kCells> high;
    Page();
  };
  void add(float value);
  [[nodiscard]] double value_at(int64_t place) const;

  double centre_;
  std::array<std::unique_ptr<Page>, kPages> pages_;
};

}  // namespace ddpm::eval
