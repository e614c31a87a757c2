#include "denoise/timestep_fit.h"

#include <cmath>

#include <fmt/format.h>

#include "base/named.h"

namespace ddpm::denoise {
namespace {

using diffusion::Formulation;

bool has_table(const nn::UNet2DConfig& model) { return model.time_embedding_type == nn::TimeEmbedding::learned; }
bool takes_logarithms(const nn::UNet2DConfig& model) { return model.time_embedding_type == nn::TimeEmbedding::fourier; }
int64_t rows(const nn::UNet2DConfig& model) { return model.num_train_timesteps.value_or(0); }

/// Whether the model's time embedding has a finite value for `t`.
bool embeds(const nn::UNet2DConfig& model, double t) {
  if (has_table(model)) return t == std::floor(t) && t >= 0.0 && t < static_cast<double>(rows(model));
  return !takes_logarithms(model) || t > 0.0;
}

/// What it has a value for.
std::string embedded(const nn::UNet2DConfig& model) {
  return has_table(model) ? fmt::format("whole numbers from 0 to model.num_train_timesteps - 1 = {}", rows(model) - 1)
                          : "numbers above 0, whose logarithm it takes";
}

}  // namespace

std::string timestep_problem(const nn::UNet2DConfig& model, const diffusion::SchedulerConfig& scheduler) {
  const Formulation formulation = scheduler.formulation;
  const bool counts = formulation == Formulation::ddpm || formulation == Formulation::regression;
  const bool has_logarithms = formulation == Formulation::ddpm || formulation == Formulation::flow;
  if ((!has_table(model) || counts) && (!takes_logarithms(model) || has_logarithms)) return "";
  return fmt::format(
      "model.time_embedding_type = \"{}\" cannot hold the noise levels of formulation {}, which are {}; "
      "wanted: positional",
      base::name_of(model.time_embedding_type), base::name_of(formulation),
      has_table(model) ? "no whole timesteps" : "logarithms themselves, or 0");
}

std::string training_problem(const nn::UNet2DConfig& model, const diffusion::SchedulerConfig& scheduler) {
  std::string problem = timestep_problem(model, scheduler);
  if (!problem.empty() || scheduler.formulation != Formulation::ddpm) return problem;
  const int64_t total = scheduler.num_train_timesteps;
  if (has_table(model) && rows(model) < total) {
    return fmt::format(
        "model.num_train_timesteps = {}: the table of time_embedding_type = \"learned\" has fewer rows than there are "
        "timesteps, diffusion.num_train_timesteps = {}; wanted: as many or more",
        rows(model), total);
  }
  if (!takes_logarithms(model)) return "";
  return fmt::format(
      "model.time_embedding_type = \"fourier\" takes the logarithm of the timestep, which is 0 for the first of "
      "formulation {}; wanted: positional, or diffusion.formulation = \"flow\"",
      base::name_of(scheduler.formulation));
}

std::string visited_problem(const nn::UNet2DConfig& model, std::span<const double> timesteps) {
  for (const double t : timesteps) {
    if (embeds(model, t)) continue;
    return fmt::format("the sampler visits timestep {}, but the model's time_embedding_type = \"{}\" embeds {}", t,
                       base::name_of(model.time_embedding_type), embedded(model));
  }
  return "";
}

std::string label_problem(const nn::UNet2DConfig& model, int64_t label) {
  if (model.class_embed_type != nn::ClassEmbedding::timestep || embeds(model, static_cast<double>(label))) return "";
  return fmt::format(
      "class {}: class_embed_type = \"timestep\" embeds classes as time_embedding_type = \"{}\" does timesteps, {}",
      label, base::name_of(model.time_embedding_type), embedded(model));
}

}  // namespace ddpm::denoise
