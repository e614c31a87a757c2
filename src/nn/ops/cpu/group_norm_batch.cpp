#include "nn/ops/cpu/group_norm_batch.h"

#include <ATen/ops/zeros.h>

namespace ddpm::nn::cpu {

Affine::Affine(const at::Tensor& weight_of_any_dtype, const at::Tensor& bias_of_any_dtype, const Modulation& modulation,
               int64_t images) {
  const at::Tensor absent = at::zeros({images, weight_of_any_dtype.size(0)}, at::kFloat);
  const auto or_zeros = [&](const at::Tensor& t) { return keep(t.defined() ? t : absent); };
  weight = keep(weight_of_any_dtype);
  bias = keep(bias_of_any_dtype);
  shift_before = or_zeros(modulation.shift_before);
  scale = or_zeros(modulation.scale);
  shift_after = or_zeros(modulation.shift_after);
}

const float* Affine::keep(const at::Tensor& t) {
  kept_.push_back(t.to(at::kFloat).contiguous());
  return kept_.back().const_data_ptr<float>();
}

NormBatch::NormBatch(const at::Tensor& x_nhwc, const Affine& affine_of_x, const NormStatistics& statistics,
                     bool with_silu)
    : x(x_nhwc),
      affine(affine_of_x),
      mean(statistics.mean.mutable_data_ptr<float>()),
      rstd(statistics.rstd.mutable_data_ptr<float>()),
      silu(with_silu),
      images(x.size(0)),
      channels(x.size(1)),
      pixels(x.size(2) * x.size(3)),
      groups(statistics.mean.size(1)),
      group_channels(channels / groups),
      slabs(images, pixels, channels) {}

void NormCoefficientArrays::set(int64_t image) {
  const NormBatch& b = batch_;
  for (int64_t c = 0; c < b.channels; ++c) {
    const int64_t i = image * b.channels + c;
    const int64_t group = image * b.groups + c / b.group_channels;
    arrays_.of(image, 0)[c] = b.mean[group] - b.affine.shift_before[i];
    arrays_.of(image, 1)[c] = b.rstd[group];
    arrays_.of(image, 2)[c] = b.affine.weight[c] * (1.0F + b.affine.scale[i]);
    arrays_.of(image, 3)[c] = b.affine.bias[c] * (1.0F + b.affine.scale[i]) + b.affine.shift_after[i];
  }
}

}  // namespace ddpm::nn::cpu
