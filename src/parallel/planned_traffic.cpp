#include "parallel/planned_traffic.h"

#include <memory>
#include <utility>

#include "nn/saved_tensors.h"

namespace ddpm::parallel {
namespace {

RankTraffic operator-(RankTraffic after, const RankTraffic& before) {
  after.tiles.add(before.tiles, -1);
  after.channels.add(before.channels, -1);
  return after;
}

/// Sees what each unit adds to what a tile has counted, and which part of it is run again.
class UnitTraffic final : public nn::UnitExecutor, public nn::SavedTensorHandler {
 public:
  UnitTraffic(const PlannedTile& tile, nn::UnitExecutor& inner) : UnitExecutor(&inner), tile_(tile) {}

  nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                    const nn::ForwardContext& context) override {
    const RankTraffic before = both_passes();
    again_ = {};
    begin_ = until_ = forward();
    state = run_inner(unit, index, std::move(state), context);
    end_part();
    again_ += both_passes() - before;
    of_units.push_back(again_);
    return state;
  }

  /// Nothing goes backward through what is counted.
  std::unique_ptr<nn::SavedTensor> save(const at::Tensor& /*tensor*/) override { return nullptr; }
  void recomputes() override {
    end_part();
    begin_ = until_ = forward();
  }
  void dropped(const at::Tensor& /*tensor*/) override { until_ = forward(); }

  std::vector<RankTraffic> of_units;

 private:
  [[nodiscard]] RankTraffic forward() const { return {.tiles = tile_.forward(), .channels = tile_.forward_sums()}; }
  [[nodiscard]] RankTraffic both_passes() const {
    RankTraffic both = forward();
    return both += {.tiles = tile_.backward(), .channels = tile_.backward_sums()};
  }
  void end_part() {
    again_ += until_ - begin_;
    begin_ = until_;
  }

  const PlannedTile& tile_;
  RankTraffic begin_;  ///< of the part that is run again
  RankTraffic until_;  ///< up to the last tensor that backward wants of it
  RankTraffic again_;
};

}  // namespace

RankTraffic& RankTraffic::operator+=(const RankTraffic& other) {
  tiles.add(other.tiles);
  channels.add(other.channels);
  return *this;
}

ActivationBatch batch_of(const PlannedTile& tile, int64_t images) {
  const nn::ImageSize size = tile.size();
  return {.images = images, .height = size.rows(), .width = size.width, .partition = &tile};
}

std::vector<RankTraffic> count_traffic(const nn::UNet2D& unet, const PlannedTile& tile, int64_t images,
                                       ActivationCheckpointing kept) {
  ActivationCheckpointer checkpointer(kept);
  UnitTraffic counted(tile, checkpointer);
  const nn::SavedTensorScope scope(counted);
  static_cast<void>(forward_on_meta(unet, batch_of(tile, images), counted));
  return std::move(counted.of_units);
}

}  // namespace ddpm::parallel
