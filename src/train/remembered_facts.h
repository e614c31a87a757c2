// The facts of this start as a callback: checkpoints remember them.
#pragma once

#include <utility>

#include "data/format.h"
#include "denoise/image_values.h"
#include "run/runtime.h"
#include "train/callback.h"
#include "train/task.h"
#include "train/training_facts.h"

namespace ddpm::train {

/// What all ranks compute with. Collective, for the number of hosts.
TrainingFacts gather_facts(const Task& task, const run::Runtime& runtime);

class RememberedFacts final : public Callback {
 public:
  explicit RememberedFacts(TrainingFacts facts) : facts_(std::move(facts)) {}

  /// Remembers the statistics of the training set's channels.
  void set_statistics(const denoise::ImageValues& stored, const data::DatasetInfo& info);

  void write(checkpoint::SaveRequest& request) override;
  [[nodiscard]] const TrainingFacts& facts() const { return facts_; }

 private:
  TrainingFacts facts_;
};

}  // namespace ddpm::train
