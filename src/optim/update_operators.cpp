#include "optim/update_operators.h"

#include <cmath>
#include <span>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "base/check.h"
#include "optim/clip.h"

namespace ddpm::optim {
namespace {

std::span<const float> floats(const at::Tensor& flat) {
  return {flat.const_data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

void sum_of_squares_cpu(at::TensorList buffers, int64_t replicas, const at::Tensor& sums) {
  double own = 0.0;
  for (const at::Tensor& buffer : buffers) own += sum_of_squares(floats(buffer));
  const bool finite = std::isfinite(own);
  auto* out = sums.mutable_data_ptr<double>();
  out[0] = own;
  out[1] = finite ? own / static_cast<double>(replicas) : 0.0;
  out[2] = finite ? 0.0 : 1.0;
}

void begin_update_cpu(const at::Tensor& record, const at::Tensor& scalars, const at::Tensor& schedule, bool whole,
                      double max_norm, bool dynamic, double min_scale, int64_t window, int64_t max_skips) {
  const UpdateRules rules{whole, max_norm, {dynamic, min_scale, window, max_skips}};
  const ScheduleRows rows{schedule.const_data_ptr<float>(), schedule.size(0), schedule.size(1)};
  decide_update(rules, rows, *reinterpret_cast<UpdateRecord*>(record.mutable_data_ptr<double>()),
                scalars.mutable_data_ptr<float>());
}

void flat_update_cpu(const at::Tensor& scalars, at::TensorList parameters, at::TensorList gradients,
                     at::TensorList exp_avg, at::TensorList exp_avg_sq, at::TensorList averages,
                     at::TensorList working) {
  const auto* numbers = scalars.const_data_ptr<float>();
  const auto& s = *reinterpret_cast<const UpdateScalars*>(numbers);
  if (s.applies == 0.0F) return;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto n = static_cast<std::size_t>(parameters[i].numel());
    auto* weights = parameters[i].mutable_data_ptr<float>();
    adamw_kernel(s.adamw, n, weights, gradients[i].const_data_ptr<float>(), exp_avg[i].mutable_data_ptr<float>(),
                 exp_avg_sq[i].mutable_data_ptr<float>());
    for (std::size_t k = 0; k * parameters.size() < averages.size(); ++k) {
      ema_kernel(numbers[kScalarsSize + static_cast<int64_t>(k)], n,
                 averages[k * parameters.size() + i].mutable_data_ptr<float>(), weights);
    }
    if (!working.empty()) working[i].copy_(parameters[i]);
  }
}

template <typename Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(ddpm, m) {
  m.def("sum_of_squares_(Tensor[] buffers, int replicas, Tensor(a!) sums) -> ()");
  m.def(
      "begin_update_(Tensor(a!) record, Tensor(b!) scalars, Tensor schedule, bool whole, float max_norm, bool dynamic, "
      "float min_scale, int window, int max_skips) -> ()");
  m.def(
      "flat_update_(Tensor scalars, Tensor(a!)[] parameters, Tensor[] gradients, Tensor(b!)[] exp_avg, "
      "Tensor(c!)[] exp_avg_sq, Tensor(d!)[] averages, Tensor(e!)[] working) -> ()");
}

TORCH_LIBRARY_IMPL(ddpm, CPU, m) {
  m.impl("sum_of_squares_", sum_of_squares_cpu);
  m.impl("begin_update_", begin_update_cpu);
  m.impl("flat_update_", flat_update_cpu);
}

void sum_of_squares_(at::TensorList buffers, int64_t replicas, const at::Tensor& sums) {
  static const auto kOperator = find_operator<decltype(sum_of_squares_cpu)>("ddpm::sum_of_squares_");
  kOperator.call(buffers, replicas, sums);
}

void begin_update_(const at::Tensor& record, const at::Tensor& scalars, const at::Tensor& schedule,
                   const UpdateRules& rules) {
  DDPM_CHECK(record.numel() >= kRecordSize && scalars.numel() == 1 + schedule.size(1), "{} numbers, {} scalars of {}",
             record.numel(), scalars.numel(), schedule.size(1));
  static const auto kOperator = find_operator<decltype(begin_update_cpu)>("ddpm::begin_update_");
  const LossScaleRule& scale = rules.loss_scale;
  kOperator.call(record, scalars, schedule, rules.whole, rules.max_norm, scale.dynamic, scale.min_scale, scale.window,
                 scale.max_skips);
}

void flat_update_(const at::Tensor& scalars, const FlatUpdate& state) {
  const std::size_t pieces = state.parameters.size();
  DDPM_CHECK(state.gradients.size() == pieces && state.exp_avg.size() == pieces && state.exp_avg_sq.size() == pieces,
             "{} pieces, {} gradients, {} first and {} second moments", pieces, state.gradients.size(),
             state.exp_avg.size(), state.exp_avg_sq.size());
  const auto averages = static_cast<std::size_t>(scalars.numel() - kScalarsSize);
  DDPM_CHECK(state.averages.size() == averages * pieces && (state.working.empty() || state.working.size() == pieces),
             "{} pieces of {} averages, {} working, of {} pieces", state.averages.size(), averages,
             state.working.size(), pieces);
  static const auto kOperator = find_operator<decltype(flat_update_cpu)>("ddpm::flat_update_");
  kOperator.call(scalars, state.parameters, state.gradients, state.exp_avg, state.exp_avg_sq, state.averages,
                 state.working);
}

}  // namespace ddpm::optim
