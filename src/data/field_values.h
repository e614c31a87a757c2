// The values of some images in all fields, before they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/field.h"

namespace ddpm::data {

/// The values of n images in the order of the fields: [n, shape...] of each in the stored type.
using FieldValues = std::vector<std::span<const std::byte>>;

/// Throws DatasetError for values that no set may hold: float32 that is not finite (of images, where their masks say
/// that the pixel counts), and masks of other values than 0 and 1. `set_mask` is one mask for all images, or empty. The
/// message names `origin`, the field's path, and the image, the first of which has the number `first`.
void expect_storable(const std::vector<Field>& fields, const FieldValues& values, std::span<const std::byte> set_mask,
                     int64_t first, const std::string& origin);

}  // namespace ddpm::data
