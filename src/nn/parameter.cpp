#include "nn/parameter.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include "base/check.h"
#include "base/random.h"

namespace ddpm::nn {

Init Init::fan_in(int64_t fan_in) { return {Kind::uniform, 1.0 / std::sqrt(static_cast<double>(fan_in))}; }

int64_t Parameter::numel() const { return c10::multiply_integers(shape); }

at::Tensor part_of(const at::Tensor& whole, const base::Split& split) {
  if (!split.cuts()) return whole;
  const int64_t extent = whole.size(split.dim) / split.parts;
  return whole.narrow(split.dim, split.part * extent, extent);
}

bool is_kernel(at::IntArrayRef shape) { return shape.size() == 4 || shape.size() == 5; }

at::Tensor stored_run(const at::Tensor& weight) {
  return is_kernel(weight.sizes()) ? weight.movedim(1, -1).reshape({-1}) : weight.reshape({-1});
}

at::Tensor view_of_run(const at::Tensor& run, at::IntArrayRef shape) {
  if (!is_kernel(shape)) return run.view(shape);
  std::vector<int64_t> stored = shape.vec();
  std::rotate(stored.begin() + 1, stored.begin() + 2, stored.end());
  return run.view(stored).movedim(-1, 1);
}

at::Tensor view_of(const Parameter& parameter, const at::Tensor& flat) {
  DDPM_CHECK(flat.dim() == 1 && flat.numel() == parameter.numel(), "{}: {} elements for {}", parameter.name,
             flat.numel(), parameter.numel());
  return view_of_run(flat, parameter.shape);
}

void initial_values(const Parameter& parameter, int index, uint64_t seed, std::span<float> out) {
  const int64_t elements = c10::multiply_integers(parameter.whole_shape());
  DDPM_CHECK(std::ssize(out) == elements, "{}: {} elements for {}", parameter.name, out.size(), elements);
  const base::RandomSequence numbers(seed, base::Stream::initial_weights, 0, static_cast<uint64_t>(index));
  const auto scale = static_cast<float>(parameter.init.scale);
  switch (parameter.init.kind) {
    case Init::Kind::uniform:
      numbers.fill_uniform(out, -scale, scale);
      return;
    case Init::Kind::normal:
      numbers.fill_normal(out);
      std::transform(out.begin(), out.end(), out.begin(), [scale](float z) { return z * scale; });
      return;
    case Init::Kind::constant:
      std::fill(out.begin(), out.end(), scale);
      return;
  }
}

void allocate(std::span<Parameter* const> parameters, const at::TensorOptions& options) {
  for (Parameter* p : parameters) p->value = view_of(*p, at::empty({p->numel()}, options));
}

void initialize(std::span<Parameter* const> parameters, uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& p = *parameters[i];
    DDPM_CHECK(p.value.defined(), "{} is not bound", p.name);
    if (p.value.is_meta()) continue;
    const std::vector<int64_t> shape = p.whole_shape();
    values.resize(static_cast<std::size_t>(c10::multiply_integers(shape)));
    initial_values(p, static_cast<int>(i), seed, values);
    p.value.copy_(part_of(at::from_blob(values.data(), shape, at::kFloat), p.split));
  }
}

}  // namespace ddpm::nn
