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

/// For each row of `x` the sum of its kernels with the rows of other units, and with those of `y`: [n, 2].
at::Tensor row_sums(comm::Communicator& world, const at::Tensor& x, const at::Tensor& y, const SampleUnits& units) {
  const at::Tensor unit_of = units.grouped() ? at::tensor(units.unit_of, at::kLong) : at::Tensor();
  return by_row_blocks(world, x.size(0), 2, [&](layout::Range rows) {
    const at::Tensor block = x.slice(0, rows.begin, rows.end);
    const at::Tensor among = kernel(block, x);
    if (!units.grouped()) return at::stack({among.sum(1) - own(block), kernel(block, y).sum(1)}, 1);
    const at::Tensor apart = unit_of.slice(0, rows.begin, rows.end).unsqueeze(1) != unit_of;
    return at::stack({(among * apart).sum(1), kernel(block, y).sum(1)}, 1);
  });
}

/// Sums of kernels, and of how many pairs: among samples of different units, among the data, and between them.
struct KernelSums {
  double samples;
  double sample_pairs;
  double data;
  double data_pairs;
  double between;
  double between_pairs;
  [[nodiscard]] double distance() const {
    return samples / sample_pairs + data / data_pairs - 2.0 * between / between_pairs;
  }
};

double pairs(double n) { return n * (n - 1.0); }

/// What is summed over the samples of each unit.
struct UnitKernels {
  std::vector<double> members;
  std::vector<double> among;  ///< with samples of other units
  std::vector<double> between;
};

UnitKernels unit_kernels(const at::Tensor& of_samples, const SampleUnits& units) {
  const auto count = static_cast<std::size_t>(units.count(of_samples.size(0)));
  UnitKernels sums{.members = std::vector<double>(count),
                   .among = std::vector<double>(count),
                   .between = std::vector<double>(count)};
  const auto sample = of_samples.accessor<double, 2>();
  for (int64_t i = 0; i < of_samples.size(0); ++i) {
    const auto unit = static_cast<std::size_t>(units.of_sample(i));
    sums.members[unit] += 1.0;
    sums.among[unit] += sample[i][0];
    sums.between[unit] += sample[i][1];
  }
  return sums;
}

double of_subset(const at::Tensor& x, const at::Tensor& y) {
  const auto n = static_cast<double>(x.size(0));
  const auto sum = [](const at::Tensor& values) { return values.sum().item<double>(); };
  return KernelSums{.samples = sum(kernel(x, x)) - sum(own(x)),
                    .sample_pairs = pairs(n),
                    .data = sum(kernel(y, y)) - sum(own(y)),
                    .data_pairs = pairs(n),
                    .between = sum(kernel(x, y)),
                    .between_pairs = n * n}
      .distance();
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

KernelDistance kernel_distance(comm::Communicator& world, const at::Tensor& samples, const at::Tensor& data,
                               const SampleUnits& units) {
  const bool one_unit = units.count(samples.size(0)) == 1;
  const SampleUnits apart = one_unit ? SampleUnits{} : units;
  const at::Tensor of_samples = row_sums(world, samples, data, apart);
  const at::Tensor of_data = row_sums(world, data, samples, {});
  const UnitKernels of_units = unit_kernels(of_samples, apart);
  const auto n = static_cast<double>(samples.size(0));
  const auto m = static_cast<double>(data.size(0));
  double within = 0.0;  // pairs of one unit, and of a sample with itself
  for (const double members : of_units.members) within += members * members;
  const KernelSums all{.samples = of_samples.select(1, 0).sum().item<double>(),
                       .sample_pairs = n * n - within,
                       .data = of_data.select(1, 0).sum().item<double>(),
                       .data_pairs = pairs(m),
                       .between = of_samples.select(1, 1).sum().item<double>(),
                       .between_pairs = n * m};

  KernelDistance distance;
  distance.whole.whole = all.distance();
  for (std::size_t unit = 0; !one_unit && unit < of_units.members.size(); ++unit) {
    const double members = of_units.members[unit];
    KernelSums rest = all;
    rest.samples -= 2.0 * of_units.among[unit];
    rest.sample_pairs = (n - members) * (n - members) - (within - members * members);
    rest.between -= of_units.between[unit];
    rest.between_pairs = (n - members) * m;
    distance.whole.without.push_back(rest.distance());
  }
  const auto datum = of_data.accessor<double, 2>();
  for (int64_t j = 0; j < data.size(0); ++j) {
    KernelSums rest = all;
    rest.data -= 2.0 * datum[j][0];
    rest.data_pairs = pairs(m - 1.0);
    rest.between -= datum[j][1];
    rest.between_pairs = n * (m - 1.0);
    distance.whole.without_shared.push_back(rest.distance());
  }
  if (std::min(samples.size(0), data.size(0)) > kKernelSubset) distance.subsets = over_subsets(world, samples, data);
  return distance;
}

}  // namespace ddpm::eval
