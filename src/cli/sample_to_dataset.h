// `ddpm sample --format dataset`: samples as a dataset folder, which all ranks write and a later command completes.
#pragma once

#include <string>

#include "cli/context.h"
#include "denoise/sampling.h"

namespace ddpm::cli {

/// What the samples are drawn with, and where they go.
struct DatasetJob {
  denoise::LoadedModel& model;
  denoise::BatchSampler& sampler;
  const denoise::SampleInputs& inputs;
  const denoise::SamplingOptions& options;
  base::Path output;
  bool denormalize = false;
  std::string settings;  ///< all that the samples depend on beside weights, inputs and `options`
};

/// Writes the dataset. Collective. Throws what denoise::write_samples() does.
void sample_to_dataset(const DatasetJob& job, Context& context);

}  // namespace ddpm::cli
