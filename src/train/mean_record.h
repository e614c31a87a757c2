// diffusion.mean_model as a callback: checkpoints remember which regression the run learns the leftovers of.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "denoise/loaded_model.h"
#include "train/callback.h"

namespace ddpm::train {

class MeanRecord final : public Callback {
 public:
  /// `mean`: the regression; null: none. `world` outlives this object.
  MeanRecord(std::shared_ptr<const denoise::LoadedModel> mean, comm::Communicator& world);

  /// Throws OutputError when the regression that was read is not that of the checkpoint. Collective.
  void resume(const checkpoint::Checkpoint& checkpoint) override;
  void write(checkpoint::SaveRequest& request) override { request.state.update(record_); }

 private:
  std::shared_ptr<const denoise::LoadedModel> mean_;
  comm::Communicator& world_;
  base::Json record_ = base::Json::object();
};

}  // namespace ddpm::train
