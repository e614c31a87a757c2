// The one step of a regression, which answers with the image itself.
#include "diffusion/sampler_formulas.h"

namespace ddpm::diffusion {
namespace {

class RegressionSampler : public Sampler {
 public:
  explicit RegressionSampler(const SchedulerConfig& config) : Sampler({0.0}), config_(config) {}

  [[nodiscard]] bool needs_noise(std::size_t /*index*/) const override { return false; }

  at::Tensor step(std::size_t /*index*/, const at::Tensor& sample, const at::Tensor& /*noise*/,
                  const ModelCall& model) override {
    return denoised(config_, NoisePoint{}, sample, model);
  }

 private:
  SchedulerConfig config_;
};

}  // namespace

std::unique_ptr<Sampler> make_regression_sampler(const SchedulerConfig& config, const SamplerOptions& /*options*/) {
  return std::make_unique<RegressionSampler>(config);
}

}  // namespace ddpm::diffusion
