// ddpm train --profile: a timeline of one step of all ranks, RUN/profile/step-00000003.json.
#pragma once

#include <cstdint>

#include "base/trace.h"
#include "run/run_folder.h"
#include "run/runtime.h"
#include "run/supervision.h"
#include "train/callback.h"
#include "train/denoising_step.h"

namespace ddpm::train {

/// Records the third step of this start, when all is warm, or the last one where there are fewer, and what follows it
/// until the next one could begin: pictures, validation, checkpoint. Does nothing unless runtime.profile asks for it.
/// Only the account of what the run uses is called before it, so that what others do comes after the step.
class Profiler final : public Callback {
 public:
  /// Everything outlives this object.
  Profiler(DenoisingStep& step, run::RunFolder& folder, run::Supervision& supervision, const run::Runtime& runtime);

  /// Training continues after `step` of `total`. Collective.
  void begin(int64_t step, int64_t total);
  /// All callbacks have been called after `step`. Collective; throws OutputError's code on all ranks.
  void after(int64_t step);

  /// No other step is under way while one is recorded.
  [[nodiscard]] bool due(const FinishedStep& step) const override {
    return profiled_ > 0 && (step.step == profiled_ || step.step == profiled_ - 1);
  }
  void run(FinishedStep& step) override;

 private:
  DenoisingStep& step_;
  run::RunFolder& folder_;
  run::Supervision& supervision_;
  const run::Runtime& runtime_;
  base::Trace trace_;
  int64_t profiled_ = 0;  // 0: none
};

}  // namespace ddpm::train
