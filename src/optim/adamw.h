// AdamW on flat buffers.
//
// Loshchilov & Hutter, "Decoupled Weight Decay Regularization" (2019), with the operations of torch.optim.AdamW: the
// decay is p -= lr · wd · p, eps is added to the corrected root, bias corrections count applied updates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/schema.h"

namespace ddpm::optim {

/// The [optimizer] section.
struct OptimizerConfig {
  double learning_rate = 1e-4;
  std::vector<double> betas = {0.95, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-6;
  double max_grad_norm = 1.0;
};

void describe(config::Section& section, OptimizerConfig& c);
/// Throws base::ConfigError unless there are two betas.
void validate(const OptimizerConfig& c);

struct AdamWConfig {
  double beta1 = 0.95;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-6;
};

AdamWConfig adamw_config(const OptimizerConfig& c);

/// What changes from update to update.
struct AdamWStep {
  double learning_rate = 0.0;
  int64_t applied_step = 1;     ///< this update included: 1 for the first
  double gradient_scale = 1.0;  ///< gradients are multiplied by it: clip coefficient over loss scale
};

/// Updates `parameter`, `exp_avg` and `exp_avg_sq` in place. All spans have one length; none may overlap another.
///
/// An element's result depends on that element alone, never on its place in the range: a buffer may be cut anywhere,
/// between ranks, threads or cache blocks, with the same bits. They are also the same on every x86-64 CPU: additions,
/// products, quotients and roots are rounded one by one.
void adamw_update(const AdamWConfig& config, const AdamWStep& step, std::span<float> parameter,
                  std::span<const float> gradient, std::span<float> exp_avg, std::span<float> exp_avg_sq);

}  // namespace ddpm::optim
