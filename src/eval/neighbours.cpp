#include "eval/neighbours.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "base/pulse.h"
#include "comm/collectives.h"
#include "layout/dealt_batches.h"

namespace ddpm::eval {
namespace {

constexpr int64_t kQueryBlock = 1024;    // queries whose products with a block of references are in memory at once
constexpr int64_t kSpare = 3;            // references beyond those that are kept, which rounding may have put behind
constexpr int64_t kAddedColumns = 1024;  // numbers of each picture that a product in float32 adds up
/// Error of a squared distance, over the squared lengths of both centred pictures: sums of kAddedColumns products in
/// float32 are off by kAddedColumns roundings of the sum of magnitudes at most, and centred values by one each.
constexpr double kRounding = static_cast<double>(kAddedColumns + 16) * 0x1p-24;
/// What products that are too small for float32 lose, for each number of a picture.
constexpr double kUnderflow = 0x1p-123;

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

/// Calls `use(begin, end)` for the columns that one product adds up.
template <typename Use>
void for_each_part(int64_t width, const Use& use) {
  for (int64_t begin = 0; begin < width; begin += kAddedColumns) use(begin, std::min(begin + kAddedColumns, width));
}

/// Some columns less their centre, which loses no more than a rounding of each difference.
at::Tensor part_of(const at::Tensor& rows, const at::Tensor& centre, int64_t begin, int64_t end) {
  return rows.slice(1, begin, end) - centre.slice(0, begin, end);
}

/// Squared lengths of the rows less their centre, in double precision.
at::Tensor squares_of(const at::Tensor& rows, const at::Tensor& centre) {
  at::Tensor squares = at::zeros({rows.size(0)}, at::kDouble);
  for_each_part(rows.size(1), [&](int64_t begin, int64_t end) {
    squares.add_(part_of(rows, centre, begin, end).to(at::kDouble).square().sum(1));
  });
  return squares;
}

}  // namespace

NeighbourSearch::NeighbourSearch(const at::Tensor& queries, int64_t keep)
    : queries_(queries.contiguous()),
      centre_(queries_.mean(0)),
      squares_(squares_of(queries_, centre_)),
      keep_(keep),
      found_(static_cast<std::size_t>(queries_.size(0) * keep),
             Neighbour{.distance = std::numeric_limits<double>::infinity()}) {}

at::Tensor NeighbourSearch::about(int64_t begin, int64_t end, const at::Tensor& rows, const at::Tensor& squares) const {
  at::Tensor products = at::zeros({end - begin, rows.size(0)}, at::kDouble);
  for_each_part(rows.size(1), [&](int64_t first, int64_t last) {
    const at::Tensor queries = part_of(queries_.slice(0, begin, end), centre_, first, last);
    products.add_(at::mm(queries, part_of(rows, centre_, first, last).t()));
  });
  products.mul_(-2.0).add_(squares).add_(squares_.slice(0, begin, end).unsqueeze(1));
  // What float32 cannot hold is looked at.
  constexpr double kNear = -std::numeric_limits<double>::infinity();
  return products.nan_to_num_(kNear, kNear, kNear);
}

void NeighbourSearch::add(int64_t first, const at::Tensor& references) {
  DDPM_CHECK(references.size(0) <= kReferenceBlock && references.size(1) == queries_.size(1), "{} references of {}",
             references.size(0), references.size(1));
  const Block block{.first = first, .rows = references.contiguous(), .squares = squares_of(references, centre_)};
  const int64_t chosen = std::min(keep_ + kSpare, block.rows.size(0));
  for (int64_t begin = 0; begin < queries_.size(0); begin += kQueryBlock) {
    const int64_t end = std::min(begin + kQueryBlock, queries_.size(0));
    const at::Tensor squares = about(begin, end, block.rows, block.squares);
    const at::Tensor places = std::get<1>(squares.topk(chosen, 1, /*largest=*/false));
    const auto width = static_cast<std::size_t>(block.rows.size(0));
    for (int64_t q = begin; q < end; ++q) {
      const auto row = static_cast<std::size_t>(q - begin);
      look_at(q, block, {squares.const_data_ptr<double>() + row * width, width},
              {places.const_data_ptr<int64_t>() + row * static_cast<std::size_t>(chosen),
               static_cast<std::size_t>(chosen)});
    }
    base::pulse();
  }
}

void NeighbourSearch::look_at(int64_t query, const Block& block, std::span<const double> squares,
                              std::span<const int64_t> chosen) {
  const auto look = [&](int64_t row) {
    if (too_far(squares[static_cast<std::size_t>(row)], query, block.squares.const_data_ptr<double>()[row])) return;
    consider(
        static_cast<std::size_t>(query),
        {.distance = exact_distance(row_of(queries_, query), row_of(block.rows, row)), .index = block.first + row});
  };
  for (const int64_t row : chosen) look(row);
  // The others are further off but for rounding: which of them may be nearer than the last that is kept?
  for (std::size_t row = 0; row < squares.size(); ++row) {
    if (std::ranges::find(chosen, static_cast<int64_t>(row)) == chosen.end()) look(static_cast<int64_t>(row));
  }
}

bool NeighbourSearch::too_far(double square, int64_t query, double reference_square) const {
  const double worst = of(query, keep_ - 1).distance;
  const double rounding = kRounding * (squares_.const_data_ptr<double>()[query] + reference_square) +
                          kUnderflow * static_cast<double>(queries_.size(1));
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
