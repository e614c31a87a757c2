// An ensemble as a dataset folder, which all ranks write and a later call completes. Which samples a folder holds
// follows from everything that they depend on, so that none of other weights, inputs or settings is taken for one.
#pragma once

#include <string>

#include "base/file_system.h"
#include "denoise/sampling.h"
#include "run/runtime.h"

namespace ddpm::denoise {

/// What the samples are drawn with, and where they go. `options.batch` is largest_group() of what the model sees at
/// once, so that no batch of the caller's changes a byte.
struct DatasetJob {
  LoadedModel& model;
  BatchSampler& sampler;
  const SampleInputs& inputs;
  const SamplingOptions& options;
  base::Path output;
  bool denormalize = false;
  std::string settings;  ///< all that the samples depend on beside weights, inputs and `options`
};

/// Draws all samples into the dataset, and logs what it holds. Collective. Throws what write_samples() does.
void sample_to_dataset(const DatasetJob& job, const run::Runtime& runtime);

}  // namespace ddpm::denoise
