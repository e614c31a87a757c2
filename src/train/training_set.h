// The training set as a callback: checkpoints remember which images they were trained on.
#pragma once

#include "comm/communicator.h"
#include "data/dataset.h"
#include "train/callback.h"

namespace ddpm::train {

class TrainingSet final : public Callback {
 public:
  /// Both outlive this object.
  TrainingSet(data::Dataset& dataset, bool positions, comm::Communicator& world)
      : dataset_(dataset), positions_(positions), world_(world) {}

  void write(checkpoint::SaveRequest& request) override;
  void close() override { dataset_.close(world_); }

 private:
  data::Dataset& dataset_;
  bool positions_;
  comm::Communicator& world_;
};

}  // namespace ddpm::train
