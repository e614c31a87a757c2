#include "eval/neighbours.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/topk.h>

#include "base/check.h"
#include "base/pulse.h"
#include "comm/collectives.h"
#include "layout/dealt_batches.h"

namespace ddpm::eval {
namespace {

constexpr int64_t kQueryBlock = 1024;  // queries whose products with a block of references are in memory at once
constexpr int64_t kSpare = 3;          // references beyond those that are kept, which rounding may have put behind
constexpr double kRounding = 1e-4;  // error of a squared distance in float32, over the squared lengths; an upper bound

double exact_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

bool nearer(const Neighbour& a, const Neighbour& b) {
  return std::tie(a.distance, a.index) < std::tie(b.distance, b.index);
}

std::span<const float> row_of(const at::Tensor& rows, int64_t row) {
  const auto width = static_cast<std::size_t>(rows.size(1));
  return {rows.const_data_ptr<float>() + static_cast<std::size_t>(row) * width, width};
}

}  // namespace

NeighbourSearch::NeighbourSearch(const at::Tensor& queries, int64_t keep)
    : queries_(queries.contiguous()),
      squares_(queries_.square().sum(1)),
      keep_(keep),
      found_(static_cast<std::size_t>(queries_.size(0) * keep),
             Neighbour{.distance = std::numeric_limits<double>::infinity()}) {}

void NeighbourSearch::add(int64_t first, const at::Tensor& references) {
  DDPM_CHECK(references.size(0) <= kReferenceBlock && references.size(1) == queries_.size(1), "{} references of {}",
             references.size(0), references.size(1));
  const at::Tensor rows = references.contiguous();
  const at::Tensor squares = rows.square().sum(1);
  const int64_t chosen = std::min(keep_ + kSpare, rows.size(0));
  for (int64_t begin = 0; begin < queries_.size(0); begin += kQueryBlock) {
    const int64_t end = std::min(begin + kQueryBlock, queries_.size(0));
    at::Tensor about = at::mm(queries_.slice(0, begin, end), rows.t()).mul_(-2.0);
    about.add_(squares).add_(squares_.slice(0, begin, end).unsqueeze(1));
    const auto [least, places] = about.topk(chosen, 1, /*largest=*/false);
    const auto square = least.accessor<float, 2>();
    const auto place = places.accessor<int64_t, 2>();
    for (int64_t q = begin; q < end; ++q) {
      for (int64_t i = 0; i < chosen; ++i) {
        const int64_t row = place[q - begin][i];
        if (too_far(square[q - begin][i], q, squares.const_data_ptr<float>()[row])) continue;
        consider(static_cast<std::size_t>(q),
                 {.distance = exact_distance(row_of(queries_, q), row_of(rows, row)), .index = first + row});
      }
    }
    base::pulse();
  }
}

bool NeighbourSearch::too_far(float square, int64_t query, float reference_square) const {
  const double worst = of(query, keep_ - 1).distance;
  const double rounding = kRounding * (static_cast<double>(squares_.const_data_ptr<float>()[query]) + reference_square);
  return square > worst * worst + rounding;
}

void NeighbourSearch::consider(std::size_t query, const Neighbour& found) {
  const auto own = std::span(found_).subspan(query * static_cast<std::size_t>(keep_), static_cast<std::size_t>(keep_));
  if (!nearer(found, own.back())) return;
  own.back() = found;
  std::ranges::sort(own, nearer);
}

void NeighbourSearch::merge(comm::Communicator& world) {
  // Some neighbours at a time: what a thousand ranks have found of all queries would not fit into memory.
  constexpr std::size_t kMostGathered = std::size_t{1} << 21;
  const std::size_t at_once = std::max<std::size_t>(1, kMostGathered / static_cast<std::size_t>(world.size()));
  const std::vector<Neighbour> own = found_;
  std::ranges::fill(found_, Neighbour{.distance = std::numeric_limits<double>::infinity()});
  for (std::size_t first = 0; first < own.size(); first += at_once) {
    const auto part = std::span(own).subspan(first, std::min(at_once, own.size() - first));
    std::vector<double> mine;
    for (const Neighbour& each : part) {
      mine.push_back(each.distance);
      mine.push_back(static_cast<double>(each.index));  // a place in a set, which double precision holds
    }
    const std::vector<double> all = comm::all_gather(world, mine);
    for (std::size_t i = 0; i < all.size(); i += 2) {
      const std::size_t place = first + i % mine.size() / 2;
      consider(place / static_cast<std::size_t>(keep_),
               {.distance = all[i], .index = static_cast<int64_t>(all[i + 1])});
    }
  }
}

const Neighbour& NeighbourSearch::of(int64_t query, int64_t n) const {
  return found_.at(static_cast<std::size_t>(query * keep_ + n));
}

void search_all(comm::Communicator& world, NeighbourSearch& search, int64_t count,
                const std::function<at::Tensor(int64_t first, int64_t n)>& read, const base::ProgressReport& progress) {
  const layout::DealtBatches blocks{.count = count, .batch_size = kReferenceBlock, .ranks = world.size()};
  comm::agree(world, [&] {
    for (int64_t round = 0; round < blocks.rounds(); ++round) {
      const layout::Range mine = blocks.items(round, world.rank());
      if (!mine.empty()) search.add(mine.begin, read(mine.begin, mine.size()));
      if (progress) progress(round + 1, blocks.rounds());
    }
  });
  search.merge(world);
}

}  // namespace ddpm::eval
