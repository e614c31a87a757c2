// Cases of group normalisation with modulation and SiLU, and what they must give: ATen's result for the formula in
// float64.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/ops/group_norm_silu.h"

namespace ddpm::nn::test {

enum class Modulated : uint8_t { not_at_all, before, scale_shift, both };

/// What the images are to a residual connection: nothing; its head, so that gradients come back to them by it too; its
/// head, and the sum of two addends.
enum class Connection : uint8_t { none, head, sum };

struct NormCase {
  int64_t images, channels, groups, height, width;
  Modulated modulated = Modulated::not_at_all;
  Activation activation = Activation::silu;
  Connection connection = Connection::none;
};

std::ostream& operator<<(std::ostream& out, const NormCase& c);

at::Tensor channels_last(const at::Tensor& x);

/// x, weight, bias, what modulates, and the residual; gradients for the results. Made on the CPU.
struct NormInputs {
  std::vector<at::Tensor> tensors;
  at::Tensor dy;
  at::Tensor residual_gradient;

  /// Returns the case in another dtype and on another device.
  [[nodiscard]] NormInputs to(const at::TensorOptions& options) const;
};

NormInputs norm_inputs(const NormCase& c, at::ScalarType dtype = at::kFloat);

Modulation modulation_of(const NormCase& c, const std::vector<at::Tensor>& t);

/// x, and the residual of a sum.
Branches branches_of(const NormCase& c, const std::vector<at::Tensor>& t);

/// The program's own operation, on the inputs' device.
NormalisedSum normalise_sum(const NormCase& c, const std::vector<at::Tensor>& t);
at::Tensor normalise(const NormCase& c, const std::vector<at::Tensor>& t);

/// By autograd: the result, then the gradients of x, weight, bias, what modulates and the residual, then a sum.
std::vector<at::Tensor> norm_by_ddpm(const NormCase& c, const NormInputs& in);
std::vector<at::Tensor> norm_by_aten(const NormCase& c, const NormInputs& in);
inline constexpr std::array<const char*, 9> kNormResults = {
    "y", "dx", "dweight", "dbias", "first of the others", "second", "third", "fourth", "fifth"};

/// What float32 arithmetic may be off by: the square root of the pixels' number times its rounding, and some.
double norm_tolerance(const NormCase& c, at::ScalarType dtype);

/// Expects each of `seen` to be of the dtype and near `wanted`, relative to the largest value of `wanted` or 1.
void expect_norm_near(const NormCase& c, const std::vector<at::Tensor>& seen, const std::vector<at::Tensor>& wanted,
                      at::ScalarType dtype, double tolerance);

}  // namespace ddpm::nn::test
