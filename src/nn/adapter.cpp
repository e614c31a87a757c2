#include "nn/adapter.h"

#include <algorithm>
#include <string_view>

#include <ATen/ops/matmul.h>

namespace ddpm::nn {
namespace {

constexpr std::string_view kWeight = ".weight";

/// Whether PEFT would take `target` for this module: its name, or the end of it from a dot on.
bool ends_with_module(const std::string& name, std::string_view target) {
  if (!name.ends_with(target)) return false;
  return name.size() == target.size() || name[name.size() - target.size() - 1] == '.';
}

}  // namespace

std::string AdaptableLayer::name() const { return weight_.name.substr(0, weight_.name.size() - kWeight.size()); }

bool AdaptableLayer::is_target(const std::string& target) const {
  constexpr std::array<std::string_view, 4> kAttention = {"to_q", "to_k", "to_v", "to_out.0"};
  const std::string module = name();
  if (target == "convolutions") return kind_ == Kind::convolution;
  if (target != "attention") return ends_with_module(module, target);
  return std::ranges::any_of(kAttention, [&](std::string_view part) { return ends_with_module(module, part); });
}

void AdaptableLayer::adapt(int64_t rank, double scale) {
  const int64_t out = weight_.shape.front();
  const int64_t inputs = weight_.numel() / out;
  std::vector<int64_t> a_shape = weight_.shape;
  a_shape.front() = rank;
  std::vector<int64_t> b_shape(weight_.shape.size(), 1);
  b_shape[0] = out;
  b_shape[1] = rank;
  const auto parameter = [&](const char* part, std::vector<int64_t> shape, Init init, int cut_with) {
    const bool cut = weight_.split.dim == cut_with;
    return Parameter{.name = name() + part,
                     .shape = std::move(shape),
                     .init = init,
                     .split = cut ? weight_.split : base::Split{},
                     .unit = weight_.unit};
  };
  adapter_ = Adapter{.a = parameter(".lora_A.weight", std::move(a_shape), Init::fan_in(inputs), 1),
                     .b = parameter(".lora_B.weight", std::move(b_shape), Init::zeros(), 0),
                     .scale = scale};
}

void AdaptableLayer::collect_adapter(std::vector<Parameter*>& out) {
  if (adapter_) out.insert(out.end(), {&adapter_->a, &adapter_->b});
}

Operations AdaptableLayer::operations_of(double rows) const {
  const int64_t thin = adapter_ ? adapter_->a.numel() + adapter_->b.numel() : 0;
  const int64_t elements = weight_.numel() + thin;
  const int64_t trained = thin + (weight_.role == base::ParameterRole::trained ? weight_.numel() : 0);
  return {.all = 2.0 * static_cast<double>(elements) * rows,
          .backward = 2.0 * static_cast<double>(elements + trained) * rows};
}

std::array<at::Tensor, 2> Adapter::values(const Partition& partition) const {
  if (!a.split.cuts() && !b.split.cuts()) return {a.value, b.value};
  return {a.split.cuts() ? a.value : partition.to_channel_parts(a.value),
          b.split.cuts() ? b.value : partition.to_channel_parts(b.value)};
}

at::Tensor merged_difference(const Adapter& adapter, at::IntArrayRef weight_shape) {
  const at::Tensor a = adapter.a.value.to(at::kFloat).contiguous().flatten(1);
  const at::Tensor b = adapter.b.value.to(at::kFloat).contiguous().flatten(1);
  return (at::matmul(b, a) * adapter.scale).view(weight_shape);
}

}  // namespace ddpm::nn
