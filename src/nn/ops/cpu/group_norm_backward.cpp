#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "nn/ops/cpu/group_norm_passes.h"

namespace ddpm::nn::cpu {
namespace {

template <typename T>
class Backward {
 public:
  Backward(const NormBatch& batch, const at::Tensor& dy, const at::Tensor& residual_gradient,
           const NormGradients& gradients)
      : b_(batch),
        kernels_(group_norm_kernels<T>()),
        x_(static_cast<const T*>(batch.x.const_data_ptr())),
        dy_(static_cast<const T*>(dy.const_data_ptr())),
        residual_gradient_(residual_gradient.defined() ? static_cast<const T*>(residual_gradient.const_data_ptr())
                                                       : nullptr),
        dx_(static_cast<T*>(gradients.x.mutable_data_ptr())),
        dshift_before_(gradients.shift_before.mutable_data_ptr<float>()),
        dscale_(gradients.scale.mutable_data_ptr<float>()),
        dshift_after_(gradients.shift_after.mutable_data_ptr<float>()),
        u_(batch),
        of_dx_(batch, 3),
        sums_(batch, 3),
        image_sums_(static_cast<std::size_t>(batch.images * batch.channels)) {}

  void begin(int64_t image) { u_.set(image); }

  /// Leaves du in dx.
  void first(int64_t image, int64_t slab) {
    const int64_t offset = b_.offset(image, slab);
    kernels_.gradient_sums(x_ + offset, dy_ + offset, b_.slabs.pixels(slab), b_.channels, u_.of(image), b_.silu,
                           dx_ + offset, sums_.of(image, slab));
  }

  void middle(int64_t image) {
    for (int64_t group = 0; group < b_.groups; ++group) {
      const PR mean = means_.empty() ? mean_of(sum_channels(image, group), b_.elements_of_group())
                                     : means_[static_cast<std::size_t>(image * b_.groups + group)];
      for (int64_t c = 0; c < b_.group_channels; ++c) finish_channel(image, group * b_.group_channels + c, mean);
    }
  }

  /// Sets the means of all groups from the sums of all tiles, in the order of the tiles.
  void meet(const GatherNumbers& tiles) {
    const at::Tensor own = numbers_of_groups(b_, [this](int64_t image, int64_t group) {
      const PR sum = sum_channels(image, group);
      return std::array{b_.elements_of_group(), sum.p, sum.r};
    });
    const at::Tensor all = tiles(own).sum(0);
    for (const double* sums = all.const_data_ptr<double>(); std::ssize(means_) < b_.images * b_.groups; sums += 3) {
      means_.push_back(mean_of({.p = sums[1], .r = sums[2]}, sums[0]));
    }
  }

  void second(int64_t image, int64_t slab) {
    const int64_t offset = b_.offset(image, slab);
    const NormGradientCoefficients k{.centre = u_.of(image).centre,
                                     .of_gradient = of_dx_.of(image, 0),
                                     .of_x = of_dx_.of(image, 1),
                                     .constant = of_dx_.of(image, 2)};
    kernels_.input_gradient(x_ + offset, residual_gradient_ == nullptr ? nullptr : residual_gradient_ + offset,
                            b_.slabs.pixels(slab), b_.channels, k, dx_ + offset);
  }

  /// Sums over the images, in their order.
  void finish_parameters(float* dweight, float* dbias) const {
    for (int64_t c = 0; c < b_.channels; ++c) {
      double weight = 0.0;
      double bias = 0.0;
      for (int64_t i = c; i < b_.images * b_.channels; i += b_.channels) {
        const double factor = 1.0 + static_cast<double>(b_.affine.scale[i]);
        weight += factor * image_sums_[static_cast<std::size_t>(i)].r;
        bias += factor * image_sums_[static_cast<std::size_t>(i)].p;
      }
      dweight[c] = static_cast<float>(weight);
      dbias[c] = static_cast<float>(bias);
    }
  }

 private:
  /// Sums over an image's pixels of a channel, or the means of their products with W over those of a group.
  struct PR {
    double p = 0.0;
    double r = 0.0;
  };

  static PR mean_of(const PR& sum, double elements) { return {.p = sum.p / elements, .r = sum.r / elements}; }

  /// Notes the sums of a group's channels, and returns those of their products with W.
  PR sum_channels(int64_t image, int64_t group) {
    const float* const weight = u_.of(image).weight;
    const int64_t begin = group * b_.group_channels;
    PR sum;
    for (int64_t c = begin; c < begin + b_.group_channels; ++c) {
      PR& of_channel = image_sums_[static_cast<std::size_t>(image * b_.channels + c)];
      of_channel = {.p = sums_.total(image, 0, c), .r = sums_.total(image, 1, c)};
      sum.p += static_cast<double>(weight[c]) * of_channel.p;
      sum.r += static_cast<double>(weight[c]) * of_channel.r;
    }
    return sum;
  }

  void finish_channel(int64_t image, int64_t c, const PR& mean) {
    const int64_t i = image * b_.channels + c;
    const PR& of_channel = image_sums_[static_cast<std::size_t>(i)];
    const double rstd = u_.of(image).rstd[c];
    const double weight = u_.of(image).weight[c];
    of_dx_.of(image, 0)[c] = static_cast<float>(rstd * weight);
    of_dx_.of(image, 1)[c] = static_cast<float>(-rstd * rstd * mean.r);
    of_dx_.of(image, 2)[c] = static_cast<float>(-rstd * mean.p);
    const double over_pixels =
        weight * of_channel.p - static_cast<double>(b_.pixels) * mean.p - sums_.total(image, 2, c) * mean.r;
    dshift_before_[i] = static_cast<float>(rstd * over_pixels);
    dscale_[i] = static_cast<float>(static_cast<double>(b_.affine.weight[c]) * of_channel.r +
                                    static_cast<double>(b_.affine.bias[c]) * of_channel.p);
    dshift_after_[i] = static_cast<float>(of_channel.p);
  }

  const NormBatch& b_;
  const GroupNormKernels<T>& kernels_;
  const T* x_;
  const T* dy_;
  const T* residual_gradient_;
  T* dx_;
  float* dshift_before_;
  float* dscale_;
  float* dshift_after_;
  NormCoefficientArrays u_;
  Coefficients of_dx_;
  Sums sums_;
  std::vector<PR> image_sums_;
  std::vector<PR> means_;  // by image and group, where images are cut into tiles; otherwise empty
};

}  // namespace

NormGradients norm_backward(const NormBatch& batch, const at::Tensor& dy, const at::Tensor& residual_gradient,
                            const GatherNumbers& tiles) {
  const auto per_channel = [&] { return at::empty({batch.channels}, at::kFloat); };
  const auto per_image = [&] { return at::empty({batch.images, batch.channels}, at::kFloat); };
  NormGradients gradients{.x = at::empty_like(batch.x),
                          .weight = per_channel(),
                          .bias = per_channel(),
                          .shift_before = per_image(),
                          .scale = per_image(),
                          .shift_after = per_image()};
  for_dtype(batch.x, [&]<typename T>(T* /*of*/) {
    Backward<T> pass(batch, dy, residual_gradient, gradients);
    if (tiles) {
      run_two_passes(batch.slabs, pass, [&] { pass.meet(tiles); });
    } else {
      run_two_passes(batch.slabs, pass);
    }
    pass.finish_parameters(gradients.weight.mutable_data_ptr<float>(), gradients.bias.mutable_data_ptr<float>());
  });
  return gradients;
}

}  // namespace ddpm::nn::cpu
