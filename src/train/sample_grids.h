// Grids of samples while training: RUN/samples/step-00001000.png.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"
#include "run/run_folder.h"
#include "run/runtime.h"
#include "run/supervision.h"
#include "train/callback.h"
#include "train/denoising_step.h"
#include "train/task.h"

namespace ddpm::train {

/// Throws base::ConfigError where [sample] asks for pictures of a model that is not drawn while it is trained.
void expect_drawable(const Config& config, const FittedModel& fitted);

/// Draws samples with the weights that RUN/model would get, on all ranks, in tiles where training has them, each time
/// of the same noise: one sees the same pictures become better. A model with classes draws them one after the other;
/// one that is given fields draws the first of the validation set, or of the training set where nothing is validated.
/// Changes nothing that training sees.
class SampleGrids final : public Callback {
 public:
  /// Opens what the model is given, if sample.every_steps asks for samples. Everything outlives this object.
  /// Collective; throws ConfigError's or DatasetError's code on all ranks for what cannot be drawn.
  SampleGrids(const Task& task, nn::UNet2D& unet, DenoisingStep& step, run::RunFolder& folder,
              run::Supervision& supervision, const run::Runtime& runtime);
  ~SampleGrids() override;

  [[nodiscard]] bool due(const FinishedStep& step) const override;
  void run(FinishedStep& step) override;
  void close() override;

 private:
  struct Drawing;
  [[nodiscard]] observe::Picture make_picture(const at::Tensor& samples, int64_t step) const;

  const Task& task_;
  DenoisingStep& step_;
  run::RunFolder& folder_;
  run::Supervision& supervision_;
  const run::Runtime& runtime_;
  comm::Communicator& world_;
  std::unique_ptr<Drawing> drawing_;  // none: nothing is drawn
};

}  // namespace ddpm::train
