// A tile of images and a part of the blocks' channels on the meta device, where nothing travels but is counted: what a
// plan knows of parallel.spatial_size and parallel.tensor_size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/tile.h"

namespace ddpm::parallel {

/// What a rank sends to those that hold the other tiles.
struct TileTraffic {
  int64_t messages = 0;
  int64_t bytes = 0;
  /// The part of these that travels beside computation (nn::Partition::trade).
  int64_t traded_messages = 0;
  int64_t traded_bytes = 0;

  /// Counts so many elements like those of x.
  void add(const at::Tensor& x, int64_t elements, int64_t in_messages = 1);
  void add_traded(const at::Tensor& piece);
  /// Adds another count so many times; -1 takes it away.
  TileTraffic& add(const TileTraffic& other, int64_t times = 1);
};

/// Sums over the ranks that hold parts of the same blocks.
struct ChannelTraffic {
  int64_t sums = 0;
  int64_t bytes = 0;  ///< that are summed

  void add(const at::Tensor& x);
  ChannelTraffic& add(const ChannelTraffic& other, int64_t times = 1);
};

class PlannedTile final : public Tile {
 public:
  /// `channel_parts`: ranks over which the blocks of the model are cut (nn::UNet2D::hold_channels). `on_gpu`: what the
  /// operations of GPUs keep and send is counted.
  PlannedTile(layout::Tiling tiling, const nn::ImageShape& image, int64_t tile, int64_t channel_parts = 1,
              bool on_gpu = false);

  [[nodiscard]] std::unique_ptr<nn::Trade> trade(std::span<const nn::Offset> with,
                                                 std::span<const at::Tensor> pieces) const override;
  [[nodiscard]] bool stands_for_gpu() const override { return on_gpu_; }
  /// Counts what a rank sends where parts of x go around in a ring, in either pass.
  [[nodiscard]] at::Tensor sum(const at::Tensor& x) const override;
  /// Counts for both passes.
  [[nodiscard]] at::Tensor gather_numbers(const at::Tensor& x) const override;
  [[nodiscard]] int64_t channel_parts() const override { return channel_parts_; }
  [[nodiscard]] at::Tensor to_channel_parts(const at::Tensor& x) const override;
  [[nodiscard]] at::Tensor sum_channel_parts(const at::Tensor& x) const override;

  /// What the model's forward passes so far have sent.
  [[nodiscard]] const TileTraffic& forward() const { return forward_; }
  /// What the backward passes that follow would send, where the gradient of what was sent is wanted.
  [[nodiscard]] const TileTraffic& backward() const { return backward_; }
  /// What these passes sum over the parts of blocks.
  [[nodiscard]] const ChannelTraffic& forward_sums() const { return forward_sums_; }
  [[nodiscard]] const ChannelTraffic& backward_sums() const { return backward_sums_; }

 private:
  [[nodiscard]] at::Tensor beside(const at::Tensor& x, std::span<const Side> sides) const override;
  [[nodiscard]] at::Tensor joined(const at::Tensor& x, const std::vector<int64_t>& extents) const override;

  int64_t channel_parts_;
  bool on_gpu_;
  mutable ChannelTraffic forward_sums_;
  mutable ChannelTraffic backward_sums_;
  mutable TileTraffic forward_;
  mutable TileTraffic backward_;
};

}  // namespace ddpm::parallel
