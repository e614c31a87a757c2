#include "denoise/sample_to_dataset.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "denoise/sample_dataset.h"
#include "denoise/stored_images.h"

namespace ddpm::denoise {
namespace {

/// What samples are pushed away from: a weak model, or the model itself without what its training left out.
std::string guidance_of(const DatasetJob& job) {
  if (job.options.weak != nullptr) return digest_of_weights(*job.options.weak);
  if (!job.options.guidance_scale) return "";
  const auto text = [](const std::optional<double>& dropout) {
    return dropout ? fmt::format("{}", *dropout) : "unknown";
  };
  return fmt::format("class_dropout {} condition_dropout {}", text(job.model.class_dropout),
                     text(job.model.condition_dropout));
}

/// The mask that belongs to the model, by its digest.
std::string digest_of_mask(const ImageRecord& image) {
  return image.mask.empty() ? "" : fmt::format(" mask {}", base::sha256_hex(image.mask.to_json().dump()));
}

/// Everything that a sample depends on beside its number.
std::string identity_of(const DatasetJob& job) {
  const diffusion::SamplerOptions& s = job.options.sampler;
  return fmt::format(
      "{}\nmodel {}\nimages {}{} {}\nscheduler {}\nsampler {} {} {} {} {}\nseed {}\nguidance {} {}\ninputs {}\n"
      "stored {}\n",
      job.settings, digest_of_weights(job.model), job.model.image.normalization_json().dump(),
      digest_of_mask(job.model.image), fmt::join(job.model.image.class_names, "\n"), job.model.scheduler.dump(),
      base::name_of(s.scheduler), s.steps, s.eta, s.churn, s.karras_sigmas, job.options.seed,
      job.options.guidance_scale.value_or(1.0), guidance_of(job), job.inputs.identity(job.options.count),
      job.denormalize);
}

/// The names of all classes, unless the set holds samples of the null class, which has none.
std::vector<std::string> names_of_labels(const DatasetJob& job) {
  const std::vector<std::string>& names = job.model.image.class_names;
  for (int64_t i = 0; i < job.options.count; ++i) {
    if (job.inputs.label(i).value_or(0) >= std::ssize(names)) return {};
  }
  return names;
}

SampleDataset describe(const DatasetJob& job) {
  const nn::UNet2DConfig& unet = job.model.unet->config();
  SampleDataset set{.output = base::plain_path(job.output),
                    .count = job.options.count,
                    .fields = {stored_field(job.model.image, unet.out_channels, job.denormalize)},
                    .class_names = {},
                    .columns = number_columns(job.inputs),
                    .identity = {}};
  if (job.inputs.label(0)) {
    set.fields.push_back(data::make_field(data::FieldRole::labels, data::kLabelsPath, {}, base::DType::i64, false));
    set.class_names = names_of_labels(job);
  }
  return set;
}

}  // namespace

void sample_to_dataset(const DatasetJob& job, const run::Runtime& runtime) {
  comm::Communicator& world = runtime.session.world();
  const std::string identity = comm::agree_on_root(world, [&] { return identity_of(job); });
  SampleDataset set;
  comm::agree(world, [&] { set = describe(job); });
  set.identity = identity;
  const base::DType stored = set.fields.front().dtype;
  const MakeSamples make = [&](int64_t first, int64_t n, const std::function<void(double)>& progress) {
    const at::Tensor images = job.sampler.draw(first, n, [&](std::size_t done, std::size_t total) {
      progress(static_cast<double>(done) / static_cast<double>(total));
    });
    const at::Tensor values = job.denormalize ? stored_images(images, job.model.image) : images;
    return values.to(stored == base::DType::u8 ? at::kByte : at::kFloat).permute({0, 2, 3, 1}).contiguous();
  };
  const SampledDataset made = write_samples(set, make, runtime);
  if (made.was_complete) {
    runtime.log.info("{}: this command has made its {} before", job.output.string(),
                     base::counted(set.count, "sample"));
    return;
  }
  const std::string taken = made.reused_shards == 0 ? std::string()
                                                    : fmt::format(", {} of them from an earlier command",
                                                                  base::counted(made.reused_samples, "sample"));
  runtime.log.info("{}: {} in {}{}", job.output.string(), base::counted(set.count, "sample"),
                   base::counted(made.shards, "shard"), taken);
}

}  // namespace ddpm::denoise
