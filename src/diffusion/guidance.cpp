#include "diffusion/guidance.h"

#include <utility>

#include <ATen/TensorOperators.h>

namespace ddpm::diffusion {

Denoiser guided(Denoiser strong, Denoiser weak, double scale) {
  return [strong = std::move(strong), weak = std::move(weak), scale](const at::Tensor& x, const at::Tensor& t) {
    const at::Tensor base = weak(x, t);
    return base + (strong(x, t) - base) * scale;
  };
}

}  // namespace ddpm::diffusion
