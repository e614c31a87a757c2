#include "eval/kernel_distance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "base/pulse.h"
#include "base/random.h"
#include "comm/collectives.h"
#include "eval/pairwise.h"

namespace ddpm::eval {
namespace {

at::Tensor kernel(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor base = at::mm(x, y.t()).div_(static_cast<double>(x.size(1))).add_(1.0);
  return base.square().mul_(base);
}

/// k(x, x) of each row, which its sum over others leaves out.
at::Tensor own(const at::Tensor& x) {
  const at::Tensor base = x.square().sum(1).div_(static_cast<double>(x.size(1))).add_(1.0);
  return base.square().mul_(base);
}

/// For each row of `x` the sum of its kernels with the other rows, and with those of `y`: [n, 2].
at::Tensor row_sums(comm::Communicator& world, const at::Tensor& x, const at::Tensor& y) {
  return by_row_blocks(world, x.size(0), 2, [&](layout::Range rows) {
    const at::Tensor block = x.slice(0, rows.begin, rows.end);
    return at::stack({kernel(block, x).sum(1) - own(block), kernel(block, y).sum(1)}, 1);
  });
}

double pairs(double n) { return n * (n - 1.0); }

/// The estimate from the sums of kernels among n samples, among m of the data, and between them.
double unbiased(double n, double m, double among_samples, double among_data, double between) {
  return among_samples / pairs(n) + among_data / pairs(m) - 2.0 * between / (n * m);
}

double of_subset(const at::Tensor& x, const at::Tensor& y) {
  const auto n = static_cast<double>(x.size(0));
  const auto sum = [](const at::Tensor& values) { return values.sum().item<double>(); };
  return unbiased(n, n, sum(kernel(x, x)) - sum(own(x)), sum(kernel(y, y)) - sum(own(y)), sum(kernel(x, y)));
}

/// A subset's rows, drawn without putting back.
at::Tensor drawn(const at::Tensor& features, int64_t subset, uint64_t which) {
  const auto rows = static_cast<uint64_t>(features.size(0));
  const base::Permutation order(/*seed=*/0, base::Stream::evaluation_subsets, static_cast<uint64_t>(subset), which,
                                rows);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < kKernelSubset; ++i) chosen.push_back(static_cast<int64_t>(order(static_cast<uint64_t>(i))));
  return features.index_select(0, at::tensor(chosen, at::kLong));
}

Estimate over_subsets(comm::Communicator& world, const at::Tensor& samples, const at::Tensor& data) {
  std::vector<double> each(kKernelSubsets);
  comm::agree(world, [&] {
    for (int64_t i = world.rank(); i < kKernelSubsets; i += world.size()) {
      each[static_cast<std::size_t>(i)] = of_subset(drawn(samples, i, 0), drawn(data, i, 1));
      base::pulse();
    }
  });
  comm::all_reduce(world, each, comm::ReduceOp::sum);
  const auto count = static_cast<double>(kKernelSubsets);
  const double mean = std::accumulate(each.begin(), each.end(), 0.0) / count;
  double squares = 0.0;
  for (const double value : each) squares += (value - mean) * (value - mean);
  std::ranges::sort(each);
  constexpr std::size_t kTail = 2;  // values beyond each end: 2.5 % of 100, rounded down
  return {.value = mean,
          .standard_error = std::sqrt(squares / (count - 1.0)),
          .low = each[kTail],
          .high = each[each.size() - 1 - kTail],
          .degrees = count - 1.0,
          .units = samples.size(0),
          .method = Method::subsets};
}

}  // namespace

KernelDistance kernel_distance(comm::Communicator& world, const at::Tensor& samples, const at::Tensor& data) {
  const at::Tensor of_samples = row_sums(world, samples, data);
  const at::Tensor of_data = row_sums(world, data, samples);
  const auto n = static_cast<double>(samples.size(0));
  const auto m = static_cast<double>(data.size(0));
  const double among_samples = of_samples.select(1, 0).sum().item<double>();
  const double among_data = of_data.select(1, 0).sum().item<double>();
  const double between = of_samples.select(1, 1).sum().item<double>();

  KernelDistance distance;
  distance.whole.whole = unbiased(n, m, among_samples, among_data, between);
  const auto sample = of_samples.accessor<double, 2>();
  for (int64_t i = 0; i < samples.size(0); ++i) {
    distance.whole.without.push_back(
        unbiased(n - 1.0, m, among_samples - 2.0 * sample[i][0], among_data, between - sample[i][1]));
  }
  const auto datum = of_data.accessor<double, 2>();
  for (int64_t j = 0; j < data.size(0); ++j) {
    distance.whole.without_shared.push_back(
        unbiased(n, m - 1.0, among_samples, among_data - 2.0 * datum[j][0], between - datum[j][1]));
  }
  if (std::min(samples.size(0), data.size(0)) > kKernelSubset) distance.subsets = over_subsets(world, samples, data);
  return distance;
}

}  // namespace ddpm::eval
