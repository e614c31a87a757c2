// Windows of fields that are coarser than their images.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/image_window.h"

namespace ddpm::denoise {

/// Windows of coarse values, upsampled bilinearly (of volumes trilinearly) with half-pixel centres: those that would be
/// cut out of the whole field. `values` is float32 [n, rows, width, c], the layers of volumes one below the other:
/// whole fields or, if `read`, the part of each that `axes` says a window needs. `sides` are those of windows,
/// `coordinates` of each axis where their pixels lie in the whole image: int64 [n, side]. Returns [n, rows, width, c]
/// of windows. The bits do not depend on what was read.
at::Tensor upsampled_windows(const at::Tensor& values, std::span<const data::CoarseAxis> axes,
                             std::span<const int64_t> sides, bool read, std::span<const at::Tensor> coordinates);

/// Where the values that are read for windows, of all axes together, lie in whole fields: int64 [n, rows, width].
at::Tensor places_read(std::span<const data::CoarseAxis> axes, std::span<const int64_t> sides,
                       std::span<const at::Tensor> coordinates);

}  // namespace ddpm::denoise
