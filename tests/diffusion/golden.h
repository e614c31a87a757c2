// Reads the golden files that golden/make_golden.py and make_dummy_golden.py wrote.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/named.h"
#include "config/resolve.h"
#include "diffusion/config.h"
#include "diffusion/noise.h"
#include "diffusion/scheduler_json.h"

namespace ddpm::test {

// What make_golden.py drew its random numbers with.
inline constexpr uint64_t kGoldenSeed = 20240607123;
inline constexpr uint64_t kGoldenFirstImage = 5;
inline constexpr diffusion::ImageShape kGoldenShape{3, 3, 2};

inline base::Json read_golden(const std::string& name) {
  std::ifstream file(std::string(DDPM_TEST_DATA) + "/golden/" + name);
  return base::parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
}

inline at::Tensor floats(const base::Json& numbers) {
  return at::tensor(numbers.get<std::vector<double>>(), at::TensorOptions(at::kFloat));
}

inline at::Tensor integers(const base::Json& numbers) {
  return at::tensor(numbers.get<std::vector<int64_t>>(), at::TensorOptions(at::kLong));
}

/// Keys of DDPMScheduler that differ from their defaults.
inline diffusion::SchedulerConfig scheduler(const base::Json& keys) {
  return diffusion::read_scheduler(keys, diffusion::SamplerType::ddpm, "golden");
}

inline diffusion::SamplerType sampler_of(const base::Json& golden) {
  return base::find_named<diffusion::SamplerType>(golden.at("sampler").get<std::string>()).value();
}

inline bool is_dpmsolver(diffusion::SamplerType sampler) { return base::name_of(sampler).starts_with("dpmsolver"); }

/// Largest difference over the largest magnitude of `wanted`. Not a number when either holds one.
inline double relative_error(const at::Tensor& seen, const at::Tensor& wanted) {
  const at::Tensor reference = wanted.to(at::kDouble).flatten();
  const at::Tensor difference = (seen.to(at::kDouble).flatten() - reference).abs();
  return (difference.max() / reference.abs().max()).item<double>();
}

}  // namespace ddpm::test
