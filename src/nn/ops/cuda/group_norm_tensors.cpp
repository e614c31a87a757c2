#include "nn/ops/cuda/group_norm_tensors.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <ATen/ops/empty.h>

#include "base/check.h"

namespace ddpm::nn::cuda {

ElementType element_type(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat:
      return ElementType::float32;
    case at::kBFloat16:
      return ElementType::bfloat16;
    case at::kHalf:
      return ElementType::float16;
    default:
      throw base::InternalError("operations on CUDA take float32, bfloat16 and float16, not {}",
                                toString(t.scalar_type()));
  }
}

namespace {

bool is_channels_last(const at::Tensor& t) { return t.is_contiguous(at::MemoryFormat::ChannelsLast); }

at::Tensor images_like(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options().memory_format(at::MemoryFormat::ChannelsLast));
}

/// Rows of channels without gaps; other layouts are copied. Absent tensors stay so.
at::Tensor rows(const OptionalTensor& t, const at::Tensor& x) {
  if (!t || !t->defined()) return {};
  DDPM_CHECK(t->device() == x.device() && t->size(-1) == x.size(1), "{} values for {} channels on {}", t->size(-1),
             x.size(1), x.device().str());
  return t->stride(-1) == 1 || t->size(-1) == 1 ? *t : t->contiguous();
}

void check_like(const at::Tensor& t, const at::Tensor& x, const char* name) {
  DDPM_CHECK(is_channels_last(t) && t.sizes() == x.sizes() && t.scalar_type() == x.scalar_type(),
             "{} unlike the images", name);
}

/// What the kernels read, and the tensors that hold it.
struct Inputs {
  Inputs(const at::Tensor& x_images, const at::Tensor& weight_of, const at::Tensor& bias_of,
         const OptionalTensor& before, const OptionalTensor& scale_of, const OptionalTensor& after)
      : x(x_images),
        weight(rows(weight_of, x)),
        bias(rows(bias_of, x)),
        shift_before(rows(before, x)),
        scale(rows(scale_of, x)),
        shift_after(rows(after, x)) {
    DDPM_CHECK(x.numel() > 0 && is_channels_last(x), "images of other than channels-last layout");
  }

  [[nodiscard]] NormPlan plan(int64_t groups, int held, std::initializer_list<const void*> images) const {
    const NormShape shape{
        .images = x.size(0), .channels = x.size(1), .pixels = x.size(2) * x.size(3), .groups = groups};
    DDPM_CHECK(shape.channels % groups == 0, "{} channels in {} groups", shape.channels, groups);
    DDPM_CHECK(std::max(shape.pixels, shape.images) <= std::numeric_limits<int32_t>::max(), "{} images of {} pixels",
               shape.images, shape.pixels);
    const NormPlan plan = plan_norm(shape, element_type(x), aligned_for_vectors(images), held);
    DDPM_CHECK(plan.grid.tiles() <= std::numeric_limits<int32_t>::max(), "{} thread blocks", plan.grid.tiles());
    return plan;
  }

  [[nodiscard]] NormBatch batch(const NormPlan& plan, const at::Tensor& mean, const at::Tensor& rstd) const {
    const auto values = [](const at::Tensor& t) -> Values {
      if (!t.defined()) return {};
      return {t.const_data_ptr(), element_type(t), t.dim() == 2 ? t.stride(0) : 0};
    };
    return {.grid = plan.grid,
            .x = x.const_data_ptr(),
            .weight = values(weight),
            .bias = values(bias),
            .shift_before = values(shift_before),
            .scale = values(scale),
            .shift_after = values(shift_after),
            .mean = mean.mutable_data_ptr<float>(),
            .rstd = rstd.mutable_data_ptr<float>()};
  }

  const at::Tensor& x;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor shift_before;
  at::Tensor scale;
  at::Tensor shift_after;
};

template <typename T>
struct Workspace {
  Workspace(const at::Tensor& like, int64_t count)
      : memory(at::empty({count * static_cast<int64_t>(sizeof(T))}, like.options().dtype(at::kByte))) {}
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory.mutable_data_ptr()); }
  at::Tensor memory;
};

at::Tensor gradient_of(const at::Tensor& t) { return t.defined() ? at::empty(t.sizes(), t.options()) : at::Tensor(); }

Results results(const at::Tensor& gradient) {
  if (!gradient.defined()) return {};
  return {gradient.mutable_data_ptr(), element_type(gradient), gradient.dim() == 2 ? gradient.stride(0) : 0};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> group_norm_forward_tensors(
    const at::Tensor& addend, const OptionalTensor& residual, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& shift_before, const OptionalTensor& scale, const OptionalTensor& shift_after, int64_t groups,
    double eps, bool silu, const std::function<void(const NormForward&)>& start) {
  at::Tensor sum = residual ? images_like(addend) : at::Tensor();
  const at::Tensor& x = residual ? sum : addend;
  const Inputs inputs(x, weight, bias, shift_before, scale, shift_after);
  if (residual) {
    check_like(addend, x, "addend");
    check_like(*residual, x, "residual");
  }
  at::Tensor y = images_like(x);
  at::Tensor mean = at::empty({x.size(0), groups}, x.options().dtype(at::kFloat));
  at::Tensor rstd = at::empty({x.size(0), groups}, mean.options());
  const NormAddition addition = residual ? NormAddition{.addend = addend.const_data_ptr(),
                                                        .residual = residual->const_data_ptr(),
                                                        .x = sum.mutable_data_ptr()}
                                         : NormAddition{};
  const NormPlan plan =
      inputs.plan(groups, kForwardHeld, {x.const_data_ptr(), y.const_data_ptr(), addition.addend, addition.residual});
  const Workspace<CellMoments> cells(x, plan.one_pass ? 0 : plan.grid.cells());
  start({.plan = plan,
         .type = element_type(x),
         .silu = silu,
         .batch = inputs.batch(plan, mean, rstd),
         .addition = addition,
         .eps = static_cast<float>(eps),
         .y = y.mutable_data_ptr(),
         .cells = cells.data()});
  return {std::move(y), std::move(sum), std::move(mean), std::move(rstd)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> group_norm_backward_tensors(
    const at::Tensor& dy, const OptionalTensor& residual_gradient, const at::Tensor& x, const at::Tensor& weight,
    const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
    const OptionalTensor& shift_after, const at::Tensor& mean, const at::Tensor& rstd, bool silu,
    const std::function<void(const NormBackward&)>& start) {
  const Inputs inputs(x, weight, bias, shift_before, scale, shift_after);
  check_like(dy, x, "gradient");
  if (residual_gradient) check_like(*residual_gradient, x, "residual's gradient");
  at::Tensor dx = images_like(x);
  at::Tensor dweight = gradient_of(inputs.weight);
  at::Tensor dbias = gradient_of(inputs.bias);
  at::Tensor dshift_before = gradient_of(inputs.shift_before);
  at::Tensor dscale = gradient_of(inputs.scale);
  at::Tensor dshift_after = gradient_of(inputs.shift_after);
  const void* const of_residual = residual_gradient ? residual_gradient->const_data_ptr() : nullptr;
  const NormPlan plan = inputs.plan(mean.size(1), kBackwardHeld,
                                    {x.const_data_ptr(), dy.const_data_ptr(), dx.const_data_ptr(), of_residual});
  const Workspace<CellSums> cells(x, plan.grid.cells());
  const Workspace<float> sums(x, int64_t{plan.grid.images} * plan.grid.chunks * kNormSums * plan.grid.channels);
  const int64_t rows = plan::parameter_rows(plan.grid);
  const Workspace<ParameterGradients> parameter_rows(x, rows > 1 ? rows * plan.grid.channels : 0);
  start({.plan = plan,
         .type = element_type(x),
         .silu = silu,
         .batch = inputs.batch(plan, mean, rstd),
         .dy = dy.const_data_ptr(),
         .residual_gradient = of_residual,
         .dx = dx.mutable_data_ptr(),
         .gradients = {.weight = results(dweight),
                       .bias = results(dbias),
                       .shift_before = results(dshift_before),
                       .scale = results(dscale),
                       .shift_after = results(dshift_after)},
         .cells = cells.data(),
         .sums = sums.data(),
         .parameter_rows = rows > 1 ? parameter_rows.data() : nullptr});
  return {std::move(dx),     std::move(dweight),     std::move(dbias), std::move(dshift_before),
          std::move(dscale), std::move(dshift_after)};
}

}  // namespace ddpm::nn::cuda
