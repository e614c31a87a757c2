#include "nn/ops/repeated_pixels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/check.h"

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor repeat_on_cpu(const at::Tensor& x) { return at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)}); }

at::Tensor sum_on_cpu(const at::Tensor& dy) { return 4 * at::avg_pool2d(dy, 2, 2); }

TORCH_LIBRARY_FRAGMENT(ddpm, m) {
  m.def("repeat_pixels(Tensor x) -> Tensor");
  m.def("sum_repeated_pixels(Tensor dy) -> Tensor");
}

TORCH_LIBRARY_IMPL(ddpm, CPU, m) {
  m.impl("repeat_pixels", repeat_on_cpu);
  m.impl("sum_repeated_pixels", sum_on_cpu);
}

using PixelOperator = c10::TypedOperatorHandle<at::Tensor(const at::Tensor&)>;

PixelOperator find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<at::Tensor(const at::Tensor&)>();
}

at::Tensor call(const PixelOperator& pixels, const at::Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return pixels.call(x.contiguous(at::MemoryFormat::ChannelsLast));
}

struct RepeatedPixels : torch::autograd::Function<RepeatedPixels> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) {
    static const PixelOperator kOperator = find("ddpm::repeat_pixels");
    return call(kOperator, x);
  }

  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "repeated pixels have no second derivative");
    static const PixelOperator kOperator = find("ddpm::sum_repeated_pixels");
    return {call(kOperator, gradients[0])};
  }
};

}  // namespace

at::Tensor repeated_pixels(const at::Tensor& x) { return RepeatedPixels::apply(x); }

}  // namespace ddpm::nn
