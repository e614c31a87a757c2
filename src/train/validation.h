// Validation while training, as the trainer calls it: when, on which weights, and what follows from the loss.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/log.h"
#include "checkpoint/store.h"
#include "comm/communicator.h"
#include "denoise/validation_set.h"
#include "train/denoising_step.h"
#include "train/task.h"
#include "train/validation_record.h"

namespace ddpm::train {

struct ValidationOutcome {
  double loss = 0.0;  ///< mean over the validation set; NaN or infinite when that of an image is
  bool best = false;  ///< the lowest of the run so far: the state is worth a checkpoint
};

/// Opens data.validation as the configuration says. Throws DatasetError's code on all ranks, also when its images are
/// not like those of `training`, which `model` fits. Collective.
denoise::ValidationSet open_validation_set(const Config& config, const data::Dataset& training,
                                           const nn::UNet2DConfig& model, at::Device device, comm::Communicator& world);

/// Warns of a data.validation that is never read.
void warn_of_unused_set(const Config& config, const base::Logger& log);

class Validation {
 public:
  /// Opens the validation set if validation.every_steps says so. `setup`, `world` and `log` outlive this object.
  /// Collective; throws DatasetError's code on all ranks.
  Validation(const Task& setup, comm::Communicator& world, const base::Logger& log);

  /// Takes up what a checkpoint remembers, where it still holds: nothing of another run's checkpoint or of another
  /// validation set's losses; not the best step when its checkpoint is no longer in `store`, the run's own (removed, or
  /// a better one took its place before the run was taken up from an older one). Collective.
  void resume(const checkpoint::Checkpoint& checkpoint, const checkpoint::CheckpointStore& store,
              const base::FileSystem& files);
  /// The reverse: into a checkpoint's state. Kept also by a run that validates no longer.
  void write(base::Json& state) const { write_validation_record(record_, state); }

  /// Whether to validate after `step`; `last`: it is the run's last one.
  [[nodiscard]] bool due(int64_t step, bool last) const;
  /// Validates the weights that RUN/model would get, and counts the result. Changes nothing that training sees.
  /// Collective.
  ValidationOutcome run(DenoisingStep& optimizer, const nn::UNet2D& unet, int64_t step);

  /// Whether early_stopping ends the run here.
  [[nodiscard]] bool stops() const { return record_.out_of_patience(setup_.config.early_stopping.patience); }
  /// Steps whose checkpoints retention spares: the best.
  [[nodiscard]] std::set<int64_t> pinned() const;
  [[nodiscard]] const ValidationRecord& record() const { return record_; }

  /// Collective.
  void close();

 private:
  [[nodiscard]] bool is_best(const base::FileSystem& files, const base::Path& folder) const;
  void warn_of_losses_that_are_not_finite(const std::vector<double>& losses, int64_t step) const;

  const Task& setup_;
  comm::Communicator& world_;
  const base::Logger& log_;
  std::optional<denoise::ValidationSet> set_;  // none: validation is off
  ValidationRecord record_;
};

}  // namespace ddpm::train
