#include "diffusion/config.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/named.h"
#include "config/resolve.h"
#include "config/value.h"

namespace ddpm::diffusion {
namespace {

void describe_schedule(config::Section& section, SchedulerConfig& c) {
  section
      .key("num_train_timesteps", c.num_train_timesteps, "Number of timesteps T of the diffusion process.",
           {.min = 1, .max = kMostTimesteps})
      .key("beta_start", c.beta_start, "First noise variance of the linear, scaled_linear and sigmoid schedules.",
           {.min = 0.0, .max = 1.0, .above_min = true, .below_max = true})
      .key("beta_end", c.beta_end, "Last noise variance of those schedules.",
           {.min = 0.0, .max = 1.0, .above_min = true, .below_max = true})
      .key("beta_schedule", c.beta_schedule, "How the noise variance grows with the timestep.")
      .key("trained_betas", c.trained_betas, "num_train_timesteps noise variances in place of a schedule.",
           {.min = 0.0, .max = 1.0, .above_min = true, .default_text = "none"})
      .key("rescale_betas_zero_snr", c.rescale_betas_zero_snr,
           "Rescale the variances so that the last timestep holds no signal at all.")
      .key("prediction_type", c.prediction_type,
           "What the model predicts: the noise, the clean image, or the velocity between them.");
}

void describe_sampling(config::Section& section, SchedulerConfig& c) {
  section.key("variance_type", c.variance_type, "Variance of the noise that ddpm sampling adds.")
      .key("clip_sample", c.clip_sample, "Clamp predicted clean images while sampling.",
           {.default_text = "true; false for a float32 training set"})
      .key("clip_sample_range", c.clip_sample_range, "Largest magnitude that clip_sample leaves.",
           {.min = 0.0, .above_min = true});
  describe_thresholding(section, c);
  section.key("timestep_spacing", c.timestep_spacing, "Which timesteps are visited when sampling takes fewer than all.")
      .key("steps_offset", c.steps_offset, "Added to the timesteps of leading spacing.",
           {.min = 0, .max = kMostTimesteps});
}

void describe_training(config::Section& section, DiffusionConfig& c) {
  section
      .key("snr_gamma", c.snr_gamma, "γ of the min-SNR weighting of the loss (5 is usual). 0: every timestep counts 1.",
           {.min = 0.0})
      .key("offset_noise", c.offset_noise, "Size of a random shift of each image's and channel's noise. 0: none.",
           {.min = 0.0})
      .key("timestep_sampler", c.timestep_sampler,
           "How training draws timesteps: all alike, or by the logistic function of a normal number (ddpm and flow).")
      .key("logit_mean", c.logit_mean, "Mean of that normal number; above 0, noisy images are seen more often.")
      .key("logit_std", c.logit_std, "Its deviation.", {.min = 0.0, .above_min = true})
      .key("p_mean", c.p_mean, "edm: mean of ln σ in training.")
      .key("p_std", c.p_std, "edm: deviation of ln σ in training.", {.min = 0.0, .above_min = true})
      .key("class_dropout", c.class_dropout,
           "How often training replaces an image's label by the null class, the last row of the class table, for "
           "guidance when sampling (0.1 is usual).",
           {.min = 0.0, .max = 1.0, .below_max = true})
      .key("condition_dropout", c.condition_dropout,
           "Probability that training leaves out an image's condition (zeros in its place) and parameters.",
           {.min = 0.0, .max = 1.0, .below_max = true})
      .key("mean_model", c.mean_model,
           "A run or model folder of formulation regression: what its answers leave of the images is learned, and the "
           "answers are added to samples. See docs/sampling.md.");
}

constexpr const char* kSection = "diffusion";

/// Keys that only some formulations read.
struct KeyReaders {
  std::string_view name;
  std::span<const Formulation> readers;
  bool of_network = false;  ///< what the network is shown, told and asked for depends on it

  [[nodiscard]] bool read_by(Formulation formulation) const {
    return std::ranges::find(readers, formulation) != readers.end();
  }
};
constexpr std::array kDdpm = {Formulation::ddpm};
constexpr std::array kEdm = {Formulation::edm};
constexpr std::array kFlow = {Formulation::flow};
constexpr std::array kTimesteps = {Formulation::ddpm, Formulation::flow};
constexpr std::array kPredictions = {Formulation::ddpm, Formulation::edm};
constexpr std::array kNoisy = {Formulation::ddpm, Formulation::edm, Formulation::flow};
constexpr auto kReaders = std::to_array<KeyReaders>({
    {"num_train_timesteps", kTimesteps, /*of_network=*/true},
    {"beta_start", kDdpm, /*of_network=*/true},
    {"beta_end", kDdpm, /*of_network=*/true},
    {"beta_schedule", kDdpm, /*of_network=*/true},
    {"trained_betas", kDdpm, /*of_network=*/true},
    {"rescale_betas_zero_snr", kDdpm, /*of_network=*/true},
    {"prediction_type", kPredictions, /*of_network=*/true},
    {"variance_type", kDdpm},
    {"clip_sample", kDdpm},
    {"clip_sample_range", kDdpm},
    {"thresholding", kDdpm},
    {"dynamic_thresholding_ratio", kDdpm},
    {"sample_max_value", kDdpm},
    {"timestep_spacing", kDdpm},
    {"steps_offset", kDdpm},
    {"sigma_data", kEdm, /*of_network=*/true},
    {"sigma_min", kEdm},
    {"sigma_max", kEdm},
    {"rho", kEdm},
    {"shift", kFlow},
    {"snr_gamma", kDdpm},
    {"offset_noise", kNoisy},
    {"timestep_sampler", kTimesteps},
    {"logit_mean", kTimesteps},
    {"logit_std", kTimesteps},
    {"p_mean", kEdm},
    {"p_std", kEdm},
    {"class_dropout", kNoisy},
    {"condition_dropout", kNoisy},
    {"mean_model", kNoisy},
});

std::string names_of_all(std::span<const Formulation> formulations) {
  std::string names;
  for (const Formulation f : formulations) names += (names.empty() ? "" : " and ") + std::string(base::name_of(f));
  return names;
}

/// The section's values with its table of keys, which points into them.
struct DescribedSection {
  DiffusionConfig values;
  config::Schema schema;

  DescribedSection() {
    config::Section section = schema.section(kSection, "", config::Identity::fixed);
    describe(section, values);
  }
  DescribedSection(const DescribedSection&) = delete;
  DescribedSection& operator=(const DescribedSection&) = delete;
  ~DescribedSection() = default;

  [[nodiscard]] const config::Entry& entry(std::string_view key) const {
    return *schema.find(fmt::format("{}.{}", kSection, key));
  }
};

/// The keys that a network depends on and its formulation reads, the formulation first.
std::vector<std::pair<std::string_view, config::Value>> values_of_network(const SchedulerConfig& c) {
  DescribedSection section;
  section.values.scheduler = c;
  std::vector<std::pair<std::string_view, config::Value>> values = {
      {"formulation", config::current(section.entry("formulation"))}};
  for (const KeyReaders& key : kReaders) {
    if (key.of_network && key.read_by(c.formulation)) {
      values.emplace_back(key.name, config::current(section.entry(key.name)));
    }
  }
  return values;
}

void describe_formulations(config::Section& section, SchedulerConfig& c) {
  section
      .key("formulation", c.formulation,
           "How noise is mixed with images and what the network learns: ddpm, edm (Karras et al. 2022), flow matching, "
           "or without noise regression: the mean of the images given what is given with them. See docs/sampling.md.")
      .key("shift", c.shift, "flow: t is replaced by shift t / (1 + (shift - 1) t); above 1, noisy images weigh more.",
           {.min = 0.0, .above_min = true});
}

}  // namespace

std::string_view scheduler_class(Formulation formulation) {
  switch (formulation) {
    case Formulation::ddpm:
      return "DDPMScheduler";
    case Formulation::edm:
      return "EDMEulerScheduler";
    case Formulation::flow:
      return "FlowMatchEulerDiscreteScheduler";
    case Formulation::regression:
      return "Regression";
  }
  throw base::InternalError("formulation {}", static_cast<int>(formulation));
}

void describe_thresholding(config::Section& section, SchedulerConfig& c) {
  section.key("thresholding", c.thresholding, "Scale predicted clean images by a quantile of their magnitudes instead.")
      .key("dynamic_thresholding_ratio", c.dynamic_thresholding_ratio, "That quantile.", {.min = 0.0, .max = 1.0})
      .key("sample_max_value", c.sample_max_value, "Largest value of that quantile that is used.",
           {.min = 0.0, .above_min = true});
}

void describe_ddpm(config::Section& section, SchedulerConfig& c) {
  describe_schedule(section, c);
  describe_sampling(section, c);
}

void describe_edm(config::Section& section, SchedulerConfig& c) {
  section
      .key("sigma_data", c.sigma_data, "edm: deviation of the training set's values.", {.min = 0.0, .above_min = true})
      .key("sigma_min", c.sigma_min, "edm: lowest noise level that sampling visits.", {.min = 0.0, .above_min = true})
      .key("sigma_max", c.sigma_max, "edm: noise level that sampling starts from.", {.min = 0.0, .above_min = true})
      .key("rho", c.rho, "edm: the larger, the more of sampling's noise levels lie near sigma_min.",
           {.min = 0.0, .above_min = true});
}

void describe(config::Section& section, DiffusionConfig& c) {
  describe_formulations(section, c.scheduler);
  describe_ddpm(section, c.scheduler);
  describe_edm(section, c.scheduler);
  describe_training(section, c);
}

SchedulerConfig keys_shared_with(const SchedulerConfig& c, Formulation formulation) {
  DescribedSection from;
  DescribedSection to;
  from.values.scheduler = c;
  config::Table shared;
  for (const KeyReaders& key : kReaders) {
    if (!key.read_by(c.formulation) || !key.read_by(formulation)) continue;
    const config::Entry& entry = from.entry(key.name);
    const config::Value value = config::current(entry);
    if (config::to_text(value) != config::to_text(entry.default_value)) shared.emplace_back(key.name, value);
  }
  config::apply(to.schema, {{kSection, config::Value{shared}}}, "the model's scheduler");
  to.values.scheduler.formulation = formulation;
  return to.values.scheduler;
}

void refuse_keys_without_meaning(const DiffusionConfig& c) {
  DescribedSection section;
  section.values = c;
  for (const KeyReaders& key : kReaders) {
    if (key.read_by(c.scheduler.formulation)) continue;
    const config::Entry& entry = section.entry(key.name);
    const config::Value seen = config::current(entry);
    if (config::to_text(seen) == config::to_text(entry.default_value)) continue;
    throw base::ConfigError(
        "{} = {} has no meaning for diffusion.formulation = \"{}\", only for {}; wanted: no such key", entry.path(),
        config::to_short_text(seen), base::name_of(c.scheduler.formulation), names_of_all(key.readers));
  }
}

std::vector<std::string> network_keys(const SchedulerConfig& c) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_of_network(c)) {
    if (key == "trained_betas" && c.trained_betas.empty()) continue;
    keys.push_back(fmt::format("{} = {}", key, config::to_short_text(value)));
  }
  return keys;
}

std::vector<std::string> changed_network_keys(const SchedulerConfig& base, const SchedulerConfig& now) {
  const auto before = values_of_network(base);
  const auto after = values_of_network(now);
  std::vector<std::string> changed;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const auto& [key, value] = after[i];
    if (config::to_text(value) == config::to_text(before[i].second)) continue;
    changed.push_back(fmt::format("{} = {} instead of {}", key, config::to_short_text(value),
                                  config::to_short_text(before[i].second)));
    if (base.formulation != now.formulation) break;  // which comes first, and has other keys
  }
  return changed;
}

}  // namespace ddpm::diffusion
