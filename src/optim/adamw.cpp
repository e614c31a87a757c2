#include "optim/adamw.h"

#include <cmath>

#include "base/check.h"
#include "optim/flat_kernels.h"

namespace ddpm::optim {

void describe(config::Section& section, OptimizerConfig& c) {
  section.key("learning_rate", c.learning_rate, "Peak learning rate of AdamW.", {.min = 0.0})
      .key("betas", c.betas, "Decay of the first and of the second moment.",
           {.min = 0.0, .max = 1.0, .below_max = true})
      .key("eps", c.eps, "Added to the root of the second moment.", {.min = 0.0, .above_min = true})
      .key("weight_decay", c.weight_decay, "Decoupled: weights shrink by learning rate × this at each update.",
           {.min = 0.0})
      .key("max_grad_norm", c.max_grad_norm,
           "Gradients of the global batch whose L2 norm is larger are scaled down to it. 0: no clipping.",
           {.min = 0.0});
}

void validate(const OptimizerConfig& c) {
  if (c.betas.size() != 2) {
    throw base::ConfigError("optimizer.betas has {} values; two are wanted: [first moment, second moment]",
                            c.betas.size());
  }
}

AdamWConfig adamw_config(const OptimizerConfig& c) {
  validate(c);
  return {.beta1 = c.betas[0], .beta2 = c.betas[1], .eps = c.eps, .weight_decay = c.weight_decay};
}

AdamWScalars adamw_scalars(const AdamWConfig& config, const AdamWStep& step) {
  DDPM_CHECK(step.applied_step >= 1, "applied_step {}", step.applied_step);
  const auto t = static_cast<double>(step.applied_step);
  return {
      .gradient_scale = static_cast<float>(step.gradient_scale),
      .keep = static_cast<float>(1.0 - step.learning_rate * config.weight_decay),
      .one_minus_beta1 = static_cast<float>(1.0 - config.beta1),
      .beta2 = static_cast<float>(config.beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - config.beta2),
      .step_size = static_cast<float>(step.learning_rate / (1.0 - std::pow(config.beta1, t))),
      .root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(config.beta2, t))),
      .eps = static_cast<float>(config.eps),
  };
}

void adamw_update(const AdamWConfig& config, const AdamWStep& step, std::span<float> parameter,
                  std::span<const float> gradient, std::span<float> exp_avg, std::span<float> exp_avg_sq) {
  const std::size_t n = parameter.size();
  DDPM_CHECK(gradient.size() == n && exp_avg.size() == n && exp_avg_sq.size() == n,
             "{} parameters, {} gradients, {} first and {} second moments", n, gradient.size(), exp_avg.size(),
             exp_avg_sq.size());
  adamw_kernel(adamw_scalars(config, step), n, parameter.data(), gradient.data(), exp_avg.data(), exp_avg_sq.data());
}

}  // namespace ddpm::optim
