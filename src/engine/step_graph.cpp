#include "engine/step_graph.h"

#include <exception>
#include <string>
#include <vector>

#include "comm/collectives.h"

namespace ddpm::engine {

void StepGraph::run(int64_t step, const std::function<void()>& work, const std::function<void()>& discard) {
  if (graph_ && runs_ == kLaunchedFirst && !record(step, work)) {
    discard();
    give_up();
  }
  if (graph_ && runs_ >= kLaunchedFirst) {
    graph_->replay();
  } else {
    work();
  }
  ++runs_;
}

bool StepGraph::record(int64_t step, const std::function<void()>& work) {
  std::string problem;
  try {
    graph_->record(work);
  } catch (const std::exception& error) {
    problem = error.what();
    problem = problem.empty() ? "unknown" : problem.substr(0, problem.find('\n'));
  }
  const std::vector<std::string> problems = comm::all_gather(world_, problem);
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    log_.warn(
        "rank {} cannot record step {} as a CUDA graph ({}); all ranks launch its operations one by one, from now on",
        rank, step, problems[rank]);
    return false;
  }
  return true;
}

}  // namespace ddpm::engine
