// Volumes as images whose layers lie one below the other: what norms, attention and everything that is elementwise see.
// In channels-last memory the two are views of each other.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// The channels-last order of images [N, C, H, W] or volumes [N, C, D, H, W].
inline at::MemoryFormat channels_last_order(const at::Tensor& x) {
  return x.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
}

/// [N, C, D · H, W] as [N, C, D, H, W].
inline at::Tensor volume_of(const at::Tensor& image, int64_t depth) {
  return image.unflatten(2, {depth, image.size(2) / depth});
}

/// [N, C, D, H, W] as [N, C, D · H, W], channels-last.
inline at::Tensor image_of_volume(const at::Tensor& volume) {
  return volume.contiguous(at::MemoryFormat::ChannelsLast3d).flatten(2, 3);
}

}  // namespace ddpm::nn
