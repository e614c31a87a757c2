// Validation while training: when, and on which weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "comm/communicator.h"
#include "denoise/validation_set.h"
#include "layout/mesh.h"
#include "run/supervision.h"
#include "train/callback.h"
#include "train/denoising_step.h"
#include "train/task.h"

namespace ddpm::train {

/// Opens data.validation as the configuration says. Throws DatasetError's code on all ranks, also when its images are
/// not like those of `training`, which `model` fits. `mesh`: the ranks of `world`. Collective.
denoise::ValidationSet open_validation_set(const Config& config, const data::Dataset& training,
                                           const FittedModel& model, at::Device device, const layout::Mesh& mesh,
                                           comm::Communicator& world);

/// Measures the loss of the weights that RUN/model would get. Changes nothing that training sees.
class Validation final : public Callback {
 public:
  /// Opens the validation set if validation.every_steps says so. Everything outlives this object. Collective; throws
  /// DatasetError's code on all ranks.
  Validation(const Task& task, comm::Communicator& world, run::Supervision& supervision, const base::Logger& log);
  /// Whose weights are validated.
  void watch(DenoisingStep& step, const nn::UNet2D& unet);
  /// The name of the set; "": validation is off.
  [[nodiscard]] std::string set() const { return set_ ? set_->name() : ""; }

  [[nodiscard]] bool due(const FinishedStep& step) const override;
  void run(FinishedStep& step) override;
  void close() override;

 private:
  void warn_of_losses_that_are_not_finite(const std::vector<double>& losses, int64_t step) const;

  const Task& task_;
  run::Supervision& supervision_;
  const base::Logger& log_;
  std::optional<denoise::ValidationSet> set_;  // none: validation is off
  DenoisingStep* step_ = nullptr;
  const nn::UNet2D* unet_ = nullptr;
};

}  // namespace ddpm::train
