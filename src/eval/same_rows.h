// Which rows of several lists are the same number: lists may be of unlike length.
#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "eval/result.h"

namespace ddpm::eval {

/// What tells a row from the others of its list.
struct RowName {
  std::string name;
  std::string variable = {};
  std::string level = {};
  friend auto operator<=>(const RowName&, const RowName&) = default;
};

/// The name of a metric's row.
RowName row_name(const Metric& metric);

/// For each row that all lists have its place in each of them, in the order of the first list. Where lists have several
/// rows of one name, the n-th of them is the n-th of the others.
std::vector<std::vector<std::size_t>> same_rows(std::span<const std::vector<RowName>> lists);

}  // namespace ddpm::eval
