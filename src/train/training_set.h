// The training set as a callback: checkpoints remember which images they were trained on.
#pragma once

#include "comm/communicator.h"
#include "train/callback.h"
#include "train/task.h"

namespace ddpm::train {

class TrainingSet final : public Callback {
 public:
  /// Both outlive this object.
  TrainingSet(Task& task, comm::Communicator& world) : task_(task), world_(world) {}

  void write(checkpoint::SaveRequest& request) override;
  void close() override { task_.dataset.close(world_); }

 private:
  Task& task_;
  comm::Communicator& world_;
};

}  // namespace ddpm::train
