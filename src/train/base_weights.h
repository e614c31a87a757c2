// The pretrained model beside adapters as a callback: checkpoints remember which it was.
#pragma once

#include <optional>

#include "base/log.h"
#include "denoise/adapter_base.h"
#include "train/callback.h"
#include "train/config.h"
#include "train/unet_state.h"

namespace ddpm::train {

/// The folder with the weights beside adapters, as `config` names it. Throws the code of OutputError on all ranks where
/// no model lies there. Collective.
base::Path find_base(const Config& config, comm::Communicator& world);

class BaseWeights final : public Callback {
 public:
  /// All outlive this object.
  BaseWeights(const Config& config, comm::Communicator& world) : config_(config), world_(world) {}

  /// Reads the weights beside the adapters of `model`, if it has any: at each start, after resume() and before a
  /// checkpoint is loaded. Collective; throws OutputError when they are not those of the checkpoint.
  void read(UNetState& model);
  /// The model that was read; null without adapters.
  [[nodiscard]] const denoise::AdapterBase* base() const { return base_ ? &*base_ : nullptr; }
  void resume(const checkpoint::Checkpoint& checkpoint) override;
  void write(checkpoint::SaveRequest& request) override;

 private:
  [[nodiscard]] bool needed() const { return config_.model.lora.rank > 0; }

  const Config& config_;
  comm::Communicator& world_;
  std::optional<denoise::AdapterBase> base_;
};

}  // namespace ddpm::train
