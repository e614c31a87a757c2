#include "parallel/parameter_arena.h"

#include <numeric>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"

namespace ddpm::parallel {
namespace {

int64_t element_count(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

ParameterArena::ParameterArena(const std::vector<ArenaParameter>& parameters, at::ScalarType compute_dtype,
                               at::Device device) {
  const at::NoGradGuard no_grad;
  for (const ArenaParameter& parameter : parameters) {
    DDPM_CHECK(parameter.value != nullptr, "parameter {} has no tensor to bind", parameter.name);
    const int64_t count = element_count(parameter.shape);
    entries_.push_back({parameter.name, parameter.shape, {size_, size_ + count}, parameter.value});
    size_ += round_up(count, kAlignment);
  }
  const auto float_options = at::TensorOptions().dtype(at::kFloat).device(device);
  master_ = at::zeros({size_}, float_options);
  gradient_ = at::zeros({size_}, float_options);
  working_ = compute_dtype == at::kFloat ? master_ : at::zeros({size_}, float_options.dtype(compute_dtype));
  for (const Entry& entry : entries_) {
    *entry.value = view(working_, entry).detach().set_requires_grad(true);
  }
}

int64_t ParameterArena::parameter_count() const {
  return std::accumulate(entries_.begin(), entries_.end(), int64_t{0},
                         [](int64_t sum, const Entry& entry) { return sum + entry.range.size(); });
}

at::Tensor ParameterArena::make_buffer() const { return at::zeros_like(master_); }

at::Tensor ParameterArena::view(const at::Tensor& flat, const Entry& entry) {
  const at::Tensor part = flat.narrow(0, entry.range.begin, entry.range.size());
  if (entry.shape.size() != 4) return part.view(entry.shape);
  const auto& s = entry.shape;
  return part.view({s[0], s[2], s[3], s[1]}).permute({0, 3, 1, 2});
}

void ParameterArena::refresh_working() {
  if (!mixed_precision()) return;
  const at::NoGradGuard no_grad;
  working_.copy_(master_);
}

}  // namespace ddpm::parallel
