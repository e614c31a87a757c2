// Convolution of flat images with a kernel of 3 x 3 and a border of zeros on the CPU: a quarter of the products, by
// Winograd's minimal filtering F(4 x 4, 3 x 3). So are its gradients.
//
// Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016. Weights and tiles of the image are
// evaluated at the points 0, ±3/4, ±3/2 and ∞ along each axis; products there, summed over channels, give the result's
// tiles. It rounds other intermediate values than a plain sum: in float32 twice as much (four times with the paper's
// points 0, ±1, ±2 and ∞, whose powers lie further apart).
//
// The gradient of x is the same convolution of the result's gradient, with turned kernels. That of the weight is the
// transposed computation: the sum over tiles of products of image and gradient at the points. No bits depend on the
// number of threads, and those of an image not on the images beside it.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// What is computed from the weights once. Undefined tensors: nothing was.
struct WinogradWeights {
  at::Tensor points;  ///< float32, four times the elements of the weight
  at::Tensor bias;    ///< [O] in float32
  int64_t in = 0;     ///< channels of x
};

/// Whether the processor has kernels that pay, and the convolution is one that they compute: float32 or bfloat16, 3 x 3
/// with zeros on all sides, and channels in multiples of 16. weight [O, C, ...]; one padding per axis. In bfloat16 they
/// do not pay where the processor multiplies tiles of it (AMX): a plain convolution is faster by more than the products
/// saved.
bool winograd_serves(const at::Tensor& weight, int64_t stride, at::IntArrayRef padding);

/// weight [O, C, 3, 3], bias [O] or undefined.
WinogradWeights winograd_weights(const at::Tensor& weight, const at::Tensor& bias);

/// x [N, C, H, W] -> [N, O, H, W], or of x with each pixel twice along each axis [N, O, 2 H, 2 W]; in the type of x. It
/// has no gradient.
at::Tensor winograd_inference(const at::Tensor& x, const WinogradWeights& weights, bool repeated);

/// The convolution with gradients of x, weight and bias, without second derivatives; bias may be undefined.
at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// The gradients of x, weight and bias from that of the result, of those that are wanted.
std::array<at::Tensor, 3> winograd_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                            std::array<bool, 3> wanted);

/// Whether images of height x width have so many tiles that it pays.
constexpr bool winograd_pays(int64_t height, int64_t width) { return height > 4 && width > 4; }

/// Whether a convolution of x is one that it computes, and pays.
inline bool takes_winograd(const at::Tensor& x, const at::Tensor& weight, int64_t stride, at::IntArrayRef padding) {
  return x.is_cpu() && x.scalar_type() == weight.scalar_type() && winograd_serves(weight, stride, padding) &&
         winograd_pays(x.size(2), x.size(3));
}

}  // namespace ddpm::nn
