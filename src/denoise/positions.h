// Where pixels lie, as channels beside the noisy image (data.positions).
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/field.h"

namespace ddpm::denoise {

/// sin and cos of 2π · coordinate / extent of all coordinates along an axis: float32 [extent, 2].
at::Tensor positions_along(int64_t extent);

/// The positions of all axes, `tables`, at `coordinates` along each axis, int64 [n, side]: [n, rows, width, 2 · axes],
/// the layers of volumes one below the other.
at::Tensor positions_at(const std::vector<at::Tensor>& tables, const std::vector<at::Tensor>& coordinates);

/// The positions of all pixels: [rows, width, 2 · axes].
at::Tensor all_positions(const data::ImageFormat& image);

}  // namespace ddpm::denoise
