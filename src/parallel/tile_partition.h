// A rank's tile of each image, beside those of other ranks, and its part of the blocks' channels: the partition of
// parallel.spatial_size and parallel.tensor_size.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "parallel/tile.h"
#include "parallel/transfer_queue.h"

namespace ddpm::parallel {

class TilePartition final : public Tile {
 public:
  /// Rank r of `tiles` holds tile r of `tiling`, and rank r of `channels` part r of the channels. Null: there are no
  /// others. Both outlive the partition, and it all graphs of it. `trades`: how pieces travel beside computation.
  /// Collective over `tiles`.
  TilePartition(layout::Tiling tiling, const nn::ImageShape& image, comm::Communicator* tiles,
                comm::Communicator* channels = nullptr, TransferQueue::Mode trades = TransferQueue::Mode::thread);

  [[nodiscard]] std::unique_ptr<nn::Trade> trade(std::span<const nn::Offset> with,
                                                 std::span<const at::Tensor> pieces) const override;
  /// Seconds that trades were waited for, since the last call.
  double take_exposed_seconds() { return trades_.take_exposed_seconds(); }
  /// From now on trades are told to `trace`, which outlives this object; null ends that.
  void trace(base::Trace* trace) { trades_.trace(trace); }

  [[nodiscard]] at::Tensor sum(const at::Tensor& x) const override;
  [[nodiscard]] at::Tensor gather_numbers(const at::Tensor& x) const override;
  [[nodiscard]] int64_t channel_parts() const override;
  [[nodiscard]] int64_t channel_part() const override;
  [[nodiscard]] at::Tensor to_channel_parts(const at::Tensor& x) const override;
  [[nodiscard]] at::Tensor sum_channel_parts(const at::Tensor& x) const override;

 private:
  [[nodiscard]] at::Tensor beside(const at::Tensor& x, std::span<const Side> sides) const override;
  [[nodiscard]] at::Tensor joined(const at::Tensor& x, const std::vector<int64_t>& extents) const override;

  comm::Communicator* tiles_;
  comm::Communicator* channels_;
  std::unique_ptr<comm::Communicator> traders_;  // `tiles_` once more, for the queue alone; null: there is one tile
  mutable TransferQueue trades_;
};

}  // namespace ddpm::parallel
