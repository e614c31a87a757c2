#include "eval/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "comm/collectives.h"

namespace ddpm::eval {
namespace {

/// The 20 highest bits of a float32, turned so that they grow with the value.
uint32_t cell_of(double offset) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(offset) + 0.0F);  // -0 is 0
  const uint32_t ordered = (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
  return ordered >> 12U;
}

}  // namespace

Distribution::Page::Page() {
  low.fill(std::numeric_limits<double>::infinity());
  high.fill(-std::numeric_limits<double>::infinity());
}

void Distribution::add(std::span<const float> values, std::span<const uint8_t> valid) {
  for (std::size_t p = 0; p < values.size(); ++p) {
    if (valid[p] != 0) add(values[p]);
  }
}

void Distribution::add(float value) {
  const uint32_t cell = cell_of(static_cast<double>(value) - centre_);
  std::unique_ptr<Page>& page = pages_[cell / kCells];
  if (!page) page = std::make_unique<Page>();
  const std::size_t place = cell % kCells;
  ++page->count[place];
  page->low[place] = std::min(page->low[place], static_cast<double>(value));
  page->high[place] = std::max(page->high[place], static_cast<double>(value));
}

void Distribution::share(comm::Communicator& comm) {
  std::vector<int64_t> used;
  for (const auto& page : pages_) used.push_back(page ? 1 : 0);
  comm::all_reduce(comm, used, comm::ReduceOp::max);
  for (std::size_t p = 0; p < kPages; ++p) {
    if (used[p] == 0) continue;
    if (!pages_[p]) pages_[p] = std::make_unique<Page>();
    comm::all_reduce(comm, std::span<int64_t>(pages_[p]->count), comm::ReduceOp::sum);
    comm::all_reduce(comm, std::span<double>(pages_[p]->low), comm::ReduceOp::min);
    comm::all_reduce(comm, std::span<double>(pages_[p]->high), comm::ReduceOp::max);
  }
}

int64_t Distribution::count() const {
  int64_t sum = 0;
  for (const auto& page : pages_) {
    for (std::size_t c = 0; page && c < kCells; ++c) sum += page->count[c];
  }
  return sum;
}

/// The value with so many others before it.
double Distribution::value_at(int64_t place) const {
  for (const auto& page : pages_) {
    for (std::size_t c = 0; page && c < kCells; ++c) {
      const int64_t here = page->count[c];
      if (place >= here) {
        place -= here;
        continue;
      }
      if (here == 1) return page->low[c];
      const double along = static_cast<double>(place) / static_cast<double>(here - 1);
      return page->low[c] + along * (page->high[c] - page->low[c]);
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double Distribution::quantile(double share) const {
  const int64_t all = count();
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(all - 1);
  const auto below = static_cast<int64_t>(place);
  const double first = value_at(below);
  const double next = value_at(std::min(below + 1, all - 1));
  return first + (place - static_cast<double>(below)) * (next - first);
}

}  // namespace ddpm::eval
