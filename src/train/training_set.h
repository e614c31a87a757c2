// The training set as a callback: checkpoints remember which images they were trained on.
#pragma once

#include "base/log.h"
#include "comm/communicator.h"
#include "train/callback.h"
#include "train/task.h"

namespace ddpm::train {

/// Throws OutputError unless a run of `config` may go on from `checkpoint` with `dataset`, of which `record` is what a
/// model remembers: the images are the same, or data.continue_with_other is set and they are of the same kind.
void expect_images_of(const checkpoint::Checkpoint& checkpoint, const Config& config, const data::Dataset& dataset,
                      const denoise::ImageRecord& record);

class TrainingSet final : public Callback {
 public:
  /// All outlive this object.
  TrainingSet(Task& task, comm::Communicator& world, const base::Logger& log) : task_(task), world_(world), log_(log) {}

  /// Has the order of the images go on where the checkpoint says, or begin an epoch of another set, or of the same
  /// images cut into other sets or with other weights.
  void resume(const checkpoint::Checkpoint& checkpoint) override;
  void write(checkpoint::SaveRequest& request) override;
  void close() override { task_.dataset.close(world_); }

 private:
  Task& task_;
  comm::Communicator& world_;
  const base::Logger& log_;
};

}  // namespace ddpm::train
