#include "denoise/timestep_fit.h"

#include <fmt/format.h>

#include "base/named.h"

namespace ddpm::denoise {

std::string timestep_problem(const nn::UNet2DConfig& model, const diffusion::SchedulerConfig& scheduler) {
  using diffusion::Formulation;
  const bool table = model.time_embedding_type == nn::TimeEmbedding::learned;
  const bool logarithm = model.time_embedding_type == nn::TimeEmbedding::fourier;
  const Formulation formulation = scheduler.formulation;
  const bool counts = formulation == Formulation::ddpm || formulation == Formulation::regression;
  const bool has_logarithms = formulation == Formulation::ddpm || formulation == Formulation::flow;
  if ((!table || counts) && (!logarithm || has_logarithms)) return "";
  return fmt::format(
      "model.time_embedding_type = \"{}\" cannot hold the noise levels of formulation {}, which are {}; "
      "wanted: positional",
      base::name_of(model.time_embedding_type), base::name_of(formulation),
      table ? "no whole timesteps" : "logarithms themselves, or 0");
}

}  // namespace ddpm::denoise
