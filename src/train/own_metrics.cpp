#include "train/own_metrics.h"

#include <vector>

#include "base/error.h"
#include "comm/collectives.h"
#include "observe/metrics.h"

namespace ddpm::train {

void OwnMetrics::add(const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) {
    if (!sums_.contains(name)) {
      const std::string problem = observe::own_name_problem(name);
      if (!problem.empty()) throw base::ConfigError("ModelTrainer::log: the name \"{}\" {}", name, problem);
    }
    Sum& sum = sums_[name];
    sum.values += value;
    ++sum.count;
  }
}

void OwnMetrics::run(FinishedStep& step) {
  std::string names;
  std::vector<double> sums;
  for (const auto& [name, sum] : sums_) {
    names += name + " ";
    sums.push_back(sum.values);
    sums.push_back(static_cast<double>(sum.count));
  }
  comm::expect_same(world_, "the names that ModelTrainer::log was given", names);
  if (sums.empty()) return;
  comm::all_reduce(world_, sums, comm::ReduceOp::sum);
  std::size_t next = 0;
  for (const auto& [name, sum] : sums_) {
    step.result.own.emplace_back(name, sums[next] / sums[next + 1]);
    next += 2;
  }
}

}  // namespace ddpm::train
