#include "optim/post_hoc.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_solve.h>

#include "base/check.h"

namespace ddpm::optim {
namespace {

/// The integral over time of the product of two averages' profiles (appendix C.2).
double product(const PowerAverage& a, const PowerAverage& b) {
  const double ratio =
      a.updates < b.updates ? std::pow(a.updates / b.updates, b.gamma) : std::pow(b.updates / a.updates, a.gamma);
  return (a.gamma + 1.0) * (b.gamma + 1.0) * ratio / ((a.gamma + b.gamma + 1.0) * std::max(a.updates, b.updates));
}

}  // namespace

double power_of_length(double relative_length) {
  DDPM_CHECK(relative_length > 0.0 && relative_length <= kGreatestLength, "relative length {}", relative_length);
  const auto length = [](double gamma) { return std::sqrt((gamma + 1.0) / (gamma + 3.0)) / (gamma + 2.0); };
  double low = 0.0;
  double high = 1.0 / relative_length;  // length(gamma) < 1 / gamma
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (length(middle) > relative_length ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

Reconstruction reconstruct(std::span<const PowerAverage> snapshots, const PowerAverage& wanted) {
  const auto count = static_cast<int64_t>(snapshots.size());
  DDPM_CHECK(count > 0, "no snapshots");
  at::Tensor products = at::empty({count, count}, at::kDouble);
  at::Tensor with_wanted = at::empty({count}, at::kDouble);
  auto rows = products.accessor<double, 2>();
  auto right = with_wanted.accessor<double, 1>();
  for (int64_t i = 0; i < count; ++i) {
    const PowerAverage& snapshot = snapshots[static_cast<std::size_t>(i)];
    right[i] = product(snapshot, wanted);
    for (int64_t j = 0; j < count; ++j) rows[i][j] = product(snapshot, snapshots[static_cast<std::size_t>(j)]);
  }
  const at::Tensor solution = at::linalg_solve(products, with_wanted);
  const double square = product(wanted, wanted);
  const double rest =
      square - 2.0 * solution.dot(with_wanted).item<double>() + solution.dot(products.mv(solution)).item<double>();
  const auto* shares = solution.const_data_ptr<double>();
  return {.shares = {shares, shares + count}, .error = std::sqrt(std::max(0.0, rest) / square)};
}

}  // namespace ddpm::optim
