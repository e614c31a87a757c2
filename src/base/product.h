// Products of sizes.
#pragma once

#include <cstdint>
#include <span>

namespace ddpm::base {

/// The product of the sizes, such as the elements of an array of this shape: 1 without any. Whoever takes sizes from a
/// file checks them before: nothing here looks for an overflow.
constexpr int64_t product_of(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

}  // namespace ddpm::base
