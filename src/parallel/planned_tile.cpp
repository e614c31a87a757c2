#include "parallel/planned_tile.h"

#include <numeric>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "nn/ops/meta.h"

namespace ddpm::parallel {
namespace {

/// Like x [N, positions, C], but for the number of positions.
at::Tensor resized(const at::Tensor& x, int64_t positions) {
  return at::empty({x.size(0), positions, x.size(2)}, x.options());
}

/// What arrives is like what leaves.
class PlannedTrade final : public nn::Trade {
 public:
  explicit PlannedTrade(std::vector<at::Tensor> pieces) : pieces_(std::move(pieces)) {}
  std::vector<at::Tensor> wait() override { return std::move(pieces_); }

 private:
  std::vector<at::Tensor> pieces_;
};

}  // namespace

void TileTraffic::add(const at::Tensor& x, int64_t elements, int64_t in_messages) {
  messages += in_messages;
  bytes += elements * static_cast<int64_t>(x.element_size());
}

void TileTraffic::add_traded(const at::Tensor& piece) {
  add(piece, piece.numel());
  ++traded_messages;
  traded_bytes += static_cast<int64_t>(piece.nbytes());
}

void ChannelTraffic::add(const at::Tensor& x) {
  ++sums;
  bytes += x.numel() * static_cast<int64_t>(x.element_size());
}

TileTraffic& TileTraffic::add(const TileTraffic& other, int64_t times) {
  messages += times * other.messages;
  bytes += times * other.bytes;
  traded_messages += times * other.traded_messages;
  traded_bytes += times * other.traded_bytes;
  return *this;
}

ChannelTraffic& ChannelTraffic::add(const ChannelTraffic& other, int64_t times) {
  sums += times * other.sums;
  bytes += times * other.bytes;
  return *this;
}

PlannedTile::PlannedTile(layout::Tiling tiling, const nn::ImageShape& image, int64_t tile, int64_t channel_parts,
                         bool on_gpu)
    : Tile(std::move(tiling), image, tile), channel_parts_(channel_parts), on_gpu_(on_gpu) {}

at::Tensor PlannedTile::to_channel_parts(const at::Tensor& x) const {
  if (channel_parts_ > 1 && x.requires_grad()) backward_sums_.add(x);
  return x;
}

at::Tensor PlannedTile::sum_channel_parts(const at::Tensor& x) const {
  if (channel_parts_ > 1) forward_sums_.add(x);
  return x;
}

at::Tensor PlannedTile::beside(const at::Tensor& x, std::span<const Side> sides) const {
  std::vector<int64_t> sizes = x.sizes().vec();
  int64_t numel = x.numel();
  for (const auto& [dim, margin, neighbours] : sides) {
    int64_t& extent = sizes[static_cast<std::size_t>(x.dim() + dim)];
    const int64_t slice = numel / extent;
    const auto send = [&](TileTraffic& traffic, int64_t neighbour, int64_t pixels) {
      if (neighbour >= 0 && pixels > 0) traffic.add(x, pixels * slice);
    };
    send(forward_, neighbours.before, margin.after);
    send(forward_, neighbours.after, margin.before);
    if (x.requires_grad()) {  // gradients of what came from there go back
      send(backward_, neighbours.before, margin.before);
      send(backward_, neighbours.after, margin.after);
    }
    extent += margin.before + margin.after;
    numel = slice * extent;
  }
  return nn::run_on_meta({.inputs = {x},
                          .result_sizes = std::move(sizes),
                          .result_options = x.options().memory_format(x.suggest_memory_format()),
                          .saved = {}});
}

std::unique_ptr<nn::Trade> PlannedTile::trade(std::span<const nn::Offset> with,
                                              std::span<const at::Tensor> pieces) const {
  for (std::size_t i = 0; i < with.size(); ++i) {
    if (tile_at(with[i]) == tile()) continue;
    forward_.add_traded(pieces[i]);
    if (pieces[i].requires_grad()) backward_.add_traded(pieces[i]);
  }
  return std::make_unique<PlannedTrade>(std::vector<at::Tensor>(pieces.begin(), pieces.end()));
}

at::Tensor PlannedTile::joined(const at::Tensor& x, const std::vector<int64_t>& extents) const {
  const int64_t others = std::accumulate(extents.begin(), extents.end(), int64_t{0}) - x.size(1);
  forward_.add(x, (tiles() - 1) * x.numel(), tiles() - 1);
  if (x.requires_grad()) backward_.add(x, x.numel() / x.size(1) * others, tiles() - 1);
  return at::cat({x, resized(x, others)}, 1);
}

at::Tensor PlannedTile::sum(const at::Tensor& x) const {
  const int64_t messages = 2 * (tiles() - 1);
  forward_.add(x, messages * x.numel() / tiles(), messages);
  if (x.requires_grad()) backward_.add(x, messages * x.numel() / tiles(), messages);
  return x;
}

at::Tensor PlannedTile::gather_numbers(const at::Tensor& x) const {
  for (TileTraffic* pass : {&forward_, &backward_}) pass->add(x, (tiles() - 1) * x.numel(), tiles() - 1);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin(), tiles());
  return at::empty(sizes, x.options());
}

}  // namespace ddpm::parallel
