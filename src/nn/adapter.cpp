#include "nn/adapter.h"

#include <algorithm>
#include <array>
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
  const auto parameter = [&](const char* part, std::vector<int64_t> shape, Init init) {
    return Parameter{.name = name() + part, .shape = std::move(shape), .init = init, .unit = weight_.unit};
  };
  adapter_ = Adapter{.a = parameter(".lora_A.weight", std::move(a_shape), Init::fan_in(inputs)),
                     .b = parameter(".lora_B.weight", std::move(b_shape), Init::zeros()),
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

at::Tensor merged_difference(const Adapter& adapter, at::IntArrayRef weight_shape) {
  const at::Tensor a = adapter.a.value.to(at::kFloat).contiguous().view({adapter.a.shape.front(), -1});
  const at::Tensor b = adapter.b.value.to(at::kFloat).contiguous().view({adapter.b.shape.front(), -1});
  return (at::matmul(b, a) * adapter.scale).view(weight_shape);
}

}  // namespace ddpm::nn
