#include "parallel/tile_partition.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "base/check.h"
#include "comm/message_tags.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::parallel {

namespace {

class QueuedTrade final : public nn::Trade {
 public:
  QueuedTrade(TransferQueue& queue, int64_t number, std::vector<at::Tensor> pieces)
      : queue_(queue), number_(number), pieces_(std::move(pieces)) {}
  std::vector<at::Tensor> wait() override {
    queue_.wait_for(number_);
    return std::move(pieces_);
  }

 private:
  TransferQueue& queue_;
  int64_t number_;
  std::vector<at::Tensor> pieces_;
};

nn::Offset opposite(const nn::Offset& offset) { return {-offset[0], -offset[1], -offset[2]}; }

/// Tells the pieces apart that one rank sends to another.
int tag_of(const nn::Offset& towards) {
  return comm::tags::kFirstBorder + (towards[0] + 1) + 3 * (towards[1] + 1) + 9 * (towards[2] + 1);
}

}  // namespace

TilePartition::TilePartition(layout::Tiling tiling, const nn::ImageShape& image, comm::Communicator* tiles,
                             comm::Communicator* channels, TransferQueue::Mode trades)
    : Tile(std::move(tiling), image, tiles == nullptr ? 0 : tiles->rank()),
      tiles_(tiles),
      channels_(channels),
      traders_(tiles == nullptr ? nullptr : tiles->duplicate()),
      trades_(tiles == nullptr ? TransferQueue::Mode::blocking : trades) {
  const int64_t ranks = tiles == nullptr ? 1 : tiles->size();
  DDPM_CHECK(Tile::tiles() == ranks, "{} tiles on {} ranks", Tile::tiles(), ranks);
}

/// NCCL tells the messages of one rank apart by their order alone. A rank sends its pieces by rising offset; each
/// arrives where the opposite offset is wanted, and opposites rise where offsets fall: so receives go through the
/// offsets backwards.
std::unique_ptr<nn::Trade> TilePartition::trade(std::span<const nn::Offset> with,
                                                std::span<const at::Tensor> pieces) const {
  std::vector<comm::Outgoing> sends;
  std::vector<comm::Incoming> receives;
  std::vector<at::Tensor> rooms(pieces.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    const auto to = static_cast<int>(tile_at(with[i]));
    if (to != tile()) sends.push_back({.buffer = message_of(pieces[i]), .to = to, .tag = tag_of(with[i])});
  }
  for (std::size_t i = with.size(); i-- > 0;) {
    const nn::Offset from = opposite(with[i]);
    const auto rank = static_cast<int>(tile_at(with[i]));
    if (rank == tile()) {
      const auto own = static_cast<std::size_t>(std::find(with.begin(), with.end(), from) - with.begin());
      DDPM_CHECK(own < pieces.size(), "an axis that goes on at one end only");
      rooms[i] = pieces[own];
    } else {
      rooms[i] = at::empty_like(pieces[i]);
      receives.push_back({.buffer = message_into(rooms[i]), .from = rank, .tag = tag_of(from)});
    }
  }
  const auto exchange = [ranks = traders_.get(), sends = std::move(sends), receives = std::move(receives),
                         kept = std::vector<at::Tensor>(pieces.begin(), pieces.end()),
                         rooms] { return ranks->exchange(sends, receives); };
  const int64_t number = trades_.push({.stages = {exchange}, .finish = {}, .name = "borders"});
  return std::make_unique<QueuedTrade>(trades_, number, std::move(rooms));
}

at::Tensor TilePartition::beside(const at::Tensor& x, std::span<const Side> sides) const {
  return with_margins(x, sides, *tiles_);
}

at::Tensor TilePartition::joined(const at::Tensor& x, const std::vector<int64_t>& extents) const {
  return gather_over(x, extents, *tiles_);
}

at::Tensor TilePartition::sum(const at::Tensor& x) const { return tiles_ == nullptr ? x : sum_over(x, *tiles_); }

at::Tensor TilePartition::gather_numbers(const at::Tensor& x) const {
  if (tiles_ == nullptr) return Partition::gather_numbers(x);
  const at::Tensor own = x.contiguous();
  std::vector<int64_t> sizes = own.sizes().vec();
  sizes.insert(sizes.begin(), tiles());
  at::Tensor all = at::empty(sizes, own.options());
  const auto bytes = static_cast<int64_t>(own.nbytes());
  tiles_
      ->all_gather({own.const_data_ptr(), bytes, base::DType::u8},
                   {all.mutable_data_ptr(), tiles() * bytes, base::DType::u8})
      .wait();
  return all;
}

int64_t TilePartition::channel_parts() const { return channels_ == nullptr ? 1 : channels_->size(); }

int64_t TilePartition::channel_part() const { return channels_ == nullptr ? 0 : channels_->rank(); }

at::Tensor TilePartition::to_channel_parts(const at::Tensor& x) const {
  return channels_ == nullptr ? x : spread_over(x, *channels_);
}

at::Tensor TilePartition::sum_channel_parts(const at::Tensor& x) const {
  return channels_ == nullptr ? x : reduce_over(x, *channels_);
}

}  // namespace ddpm::parallel
