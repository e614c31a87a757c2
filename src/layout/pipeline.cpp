#include "layout/pipeline.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace ddpm::layout {

std::vector<Range> balanced_stages(std::span<const double> costs, int64_t stages) {
  const auto units = std::ssize(costs);
  DDPM_CHECK(stages >= 1 && units >= stages, "{} stages of {} units", stages, units);
  std::vector<double> until(costs.size() + 1, 0.0);  // until[u]: cost of all units before unit u
  for (std::size_t u = 0; u < costs.size(); ++u) until[u + 1] = until[u] + costs[u];
  // The least cost of the most expensive of `stage` + 1 stages that hold the units before `end`, and where the last
  // begins.
  struct Cut {
    double cost = std::numeric_limits<double>::infinity();
    int64_t begin = 0;
  };
  std::vector<std::vector<Cut>> best(static_cast<std::size_t>(stages), std::vector<Cut>(costs.size() + 1));
  const auto at = [&](int64_t stage, int64_t end) -> Cut& {
    return best[static_cast<std::size_t>(stage)][static_cast<std::size_t>(end)];
  };
  const auto cost_of = [&](int64_t begin, int64_t end) {
    return until[static_cast<std::size_t>(end)] - until[static_cast<std::size_t>(begin)];
  };
  for (int64_t end = 1; end <= units; ++end) at(0, end) = {.cost = cost_of(0, end), .begin = 0};
  for (int64_t stage = 1; stage < stages; ++stage) {
    for (int64_t end = stage + 1; end <= units; ++end) {
      for (int64_t begin = stage; begin < end; ++begin) {
        const double cost = std::max(at(stage - 1, begin).cost, cost_of(begin, end));
        if (cost < at(stage, end).cost) at(stage, end) = {.cost = cost, .begin = begin};
      }
    }
  }
  std::vector<Range> ranges(static_cast<std::size_t>(stages));
  int64_t end = units;
  for (int64_t stage = stages - 1; stage >= 0; --stage) {
    ranges[static_cast<std::size_t>(stage)] = {at(stage, end).begin, end};
    end = at(stage, end).begin;
  }
  return ranges;
}

std::vector<StagePass> one_forward_one_backward(int64_t stage, int64_t stages, int64_t micro_batches) {
  const int64_t ahead = std::min(stages - stage - 1, micro_batches);
  std::vector<StagePass> passes;
  for (int64_t micro = 0; micro < ahead; ++micro) passes.push_back({.forward = true, .micro = micro});
  for (int64_t micro = 0; micro < micro_batches; ++micro) {
    if (micro + ahead < micro_batches) passes.push_back({.forward = true, .micro = micro + ahead});
    passes.push_back({.forward = false, .micro = micro});
  }
  return passes;
}

double pipeline_bubble(int64_t stages, int64_t micro_batches) {
  return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

}  // namespace ddpm::layout
