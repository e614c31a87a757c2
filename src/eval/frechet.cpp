#include "eval/frechet.h"

#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/diag.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>

#include "base/pulse.h"
#include "comm/collectives.h"

namespace ddpm::eval {
namespace {

/// The roots of eigenvalues of a matrix that has none below 0 but by rounding.
at::Tensor roots_of(const at::Tensor& eigenvalues) {
  const double rounding = std::numeric_limits<double>::epsilon() * static_cast<double>(eigenvalues.numel());
  const at::Tensor least = eigenvalues.abs().max() * rounding;
  return eigenvalues.masked_fill(eigenvalues < least, 0.0).sqrt();
}

at::Tensor symmetric_root(const at::Tensor& matrix) {
  const auto [eigenvalues, vectors] = at::linalg_eigh(matrix);
  return at::mm(vectors * roots_of(eigenvalues), vectors.t());
}

/// What is left of a set of features without one group of them.
GaussianFit without(const at::Tensor& mean, const at::Tensor& centred, const at::Tensor& scatter,
                    const std::vector<int64_t>& group) {
  const at::Tensor left_out = centred.index_select(0, at::tensor(group, at::kLong));
  const auto rest = centred.size(0) - std::ssize(group);
  const at::Tensor shift = left_out.sum(0) / -static_cast<double>(rest);
  const at::Tensor left = scatter - at::mm(left_out.t(), left_out);
  const at::Tensor covariance =
      (left - at::outer(shift, shift) * static_cast<double>(rest)) / static_cast<double>(rest - 1);
  return {.count = rest, .mean = mean + shift, .covariance = covariance};
}

}  // namespace

GaussianFit fit_gaussian(const at::Tensor& features) {
  const at::Tensor mean = features.mean(0);
  const at::Tensor centred = features - mean;
  const auto freedom = static_cast<double>(features.size(0) - 1);
  return {.count = features.size(0), .mean = mean, .covariance = at::mm(centred.t(), centred) / freedom};
}

FrechetReference::FrechetReference(const GaussianFit& reference)
    : mean_(reference.mean),
      root_(symmetric_root(reference.covariance)),
      trace_(reference.covariance.diagonal().sum().item<double>()) {}

double FrechetReference::distance(const GaussianFit& other) const {
  const at::Tensor product = at::mm(at::mm(root_, other.covariance), root_);
  const at::Tensor eigenvalues = at::linalg_eigvalsh((product + product.t()) * 0.5);
  const double shift = (mean_ - other.mean).square().sum().item<double>();
  const double trace = trace_ + other.covariance.diagonal().sum().item<double>();
  return shift + trace - 2.0 * roots_of(eigenvalues).sum().item<double>();
}

FrechetDistance frechet_distance(comm::Communicator& world, const at::Tensor& samples, const at::Tensor& data,
                                 const SampleUnits& units) {
  const int64_t count = samples.size(0);
  const auto groups = random_groups(count, units);
  // The last place is that of all samples. Each rank takes some places.
  std::vector<double> distances(groups.size() + 1);
  comm::agree(world, [&] {
    const FrechetReference reference(fit_gaussian(data));
    const GaussianFit whole = fit_gaussian(samples);
    const at::Tensor centred = samples - whole.mean;
    const at::Tensor scatter = whole.covariance * static_cast<double>(count - 1);
    for (auto i = static_cast<std::size_t>(world.rank()); i < distances.size();
         i += static_cast<std::size_t>(world.size())) {
      if (i < groups.size() && count - std::ssize(groups[i]) < 2) {
        distances[i] = std::numeric_limits<double>::quiet_NaN();
        continue;
      }
      distances[i] = reference.distance(i < groups.size() ? without(whole.mean, centred, scatter, groups[i]) : whole);
      base::pulse();
    }
  });
  comm::all_reduce(world, distances, comm::ReduceOp::sum);
  const double distance = distances.back();
  const std::span<const double> left_out = std::span(distances).first(groups.size());
  const auto number = static_cast<double>(left_out.size());
  const double mean = std::accumulate(left_out.begin(), left_out.end(), 0.0) / number;
  const std::array terms = {jackknife_variance(left_out)};
  const int64_t independent = units.count(count);
  return {.measured = estimate_of(distance, terms, independent),
          .unbiased = estimate_of(number * distance - (number - 1.0) * mean, terms, independent),
          .left_out = {left_out.begin(), left_out.end()}};
}

}  // namespace ddpm::eval
