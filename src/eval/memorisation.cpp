#include "eval/memorisation.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "comm/collectives.h"
#include "layout/dealt_batches.h"

namespace ddpm::eval {
namespace {

/// Rows of these places, on every rank. Collective.
at::Tensor rows_at(comm::Communicator& world, const Rows& rows, const std::vector<int64_t>& places, int64_t width) {
  at::Tensor table = at::zeros({std::ssize(places), width}, at::kDouble);
  comm::agree(world, [&] {
    for (auto i = static_cast<std::size_t>(world.rank()); i < places.size();
         i += static_cast<std::size_t>(world.size())) {
      table[static_cast<int64_t>(i)].copy_(rows.read(places[i], 1)[0]);
    }
  });
  comm::all_reduce(world, std::span(table.mutable_data_ptr<double>(), static_cast<std::size_t>(table.numel())),
                   comm::ReduceOp::sum);
  return table.to(at::kFloat);
}

/// The share of the sorted numbers that are below `value`; of those that equal it a half counts.
double share_under(double value, const std::vector<double>& sorted) {
  const auto [low, high] = std::ranges::equal_range(sorted, value);
  const auto below = static_cast<double>(low - sorted.begin());
  return (below + 0.5 * static_cast<double>(high - low)) / static_cast<double>(sorted.size());
}

/// The held-out picture that is nearest to a training picture, other than `except`.
double nearest_other(const NeighbourSearch& search, int64_t query, int64_t except) {
  const Neighbour& first = search.of(query, 0);
  return first.index != except ? first.distance : search.of(query, 1).distance;
}

/// Compares each picture's way to its nearest training picture with that of held-out pictures to the same one.
void count_copies(comm::Communicator& world, const std::vector<Neighbour>& nearest, int64_t samples, const Rows& train,
                  const at::Tensor& held_out, Memorisation& result) {
  std::vector<int64_t> places;
  for (const Neighbour& each : nearest) places.push_back(each.index);
  std::ranges::sort(places);
  places.erase(std::ranges::unique(places).begin(), places.end());
  NeighbourSearch search(rows_at(world, train, places, held_out.size(1)), /*keep=*/2);
  const Rows references = rows_of(held_out);
  search_all(world, search, references.count, references.read);
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    const auto [distance, index] = nearest[i];
    const int64_t query = std::ranges::lower_bound(places, index) - places.begin();
    const int64_t own = static_cast<int64_t>(i) - samples;  // number of a held-out picture; below 0 for samples
    const bool copies = distance < nearest_other(search, query, own);
    (own < 0 ? result.copies : result.copies_of_reference).push_back(copies ? 1.0 : 0.0);
  }
}

}  // namespace

Rows rows_of(const at::Tensor& table) {
  return {.count = table.size(0),
          .read = [table](int64_t first, int64_t n) { return table.slice(0, first, first + n).to(at::kFloat); }};
}

LeftOut share_below(const std::vector<double>& a, const std::vector<double>& b, const SampleUnits& units) {
  std::vector<double> sorted_a = a;
  std::vector<double> sorted_b = b;
  std::ranges::sort(sorted_a);
  std::ranges::sort(sorted_b);
  std::vector<double> of_a;  // the share of b above each a
  std::vector<double> of_b;
  for (const double value : a) of_a.push_back(1.0 - share_under(value, sorted_b));
  for (const double value : b) of_b.push_back(share_under(value, sorted_a));
  LeftOut share = mean_over(of_a, units);
  share.without_shared = means_without(of_b);
  return share;
}

Memorisation find_memorised(comm::Communicator& world, const at::Tensor& samples, const Rows& train,
                            const at::Tensor& held_out, const base::ProgressReport& progress) {
  const int64_t count = samples.size(0);
  const int64_t own = held_out.defined() ? 0 : std::min(kOwnNeighbours, train.count);
  std::vector<int64_t> own_places;
  for (int64_t i = 0; i < own; ++i) own_places.push_back(i * train.count / own);
  const at::Tensor others = held_out.defined() ? held_out : rows_at(world, train, own_places, samples.size(1));
  NeighbourSearch search(at::cat({samples, others}), /*keep=*/2);
  search_all(world, search, train.count, train.read, progress);

  Memorisation result;
  const double scale = 1.0 / std::sqrt(static_cast<double>(samples.size(1)));
  std::vector<Neighbour> nearest;
  for (int64_t i = 0; i < count + others.size(0); ++i) {
    // A training picture is its own nearest one.
    const bool is_own = i >= count && !held_out.defined();
    const bool first_is_itself = is_own && search.of(i, 0).index == own_places[static_cast<std::size_t>(i - count)];
    nearest.push_back(search.of(i, first_is_itself ? 1 : 0));
    (i < count ? result.distances : result.of_reference).push_back(nearest.back().distance * scale);
  }
  if (held_out.defined()) {
    result.nearer = share_below(result.distances, result.of_reference);
    count_copies(world, nearest, count, train, held_out, result);
  }
  nearest.resize(static_cast<std::size_t>(count));
  result.nearest = std::move(nearest);
  return result;
}

}  // namespace ddpm::eval
