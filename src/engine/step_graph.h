// The device's part of an optimizer step: launched operation by operation at first, then recorded, and from then on
// launched at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/log.h"
#include "comm/communicator.h"
#include "device/device_graph.h"

namespace ddpm::engine {

class StepGraph {
 public:
  /// Calls of run() after which one is like the next, where there is a graph: the last of them records.
  static constexpr int64_t kFirstRuns = 3;

  /// Without a `graph`, work is always launched operation by operation.
  StepGraph(std::unique_ptr<device::DeviceGraph> graph, comm::Communicator& world, const base::Logger& log)
      : graph_(std::move(graph)), world_(world), log_(log) {}

  /// Whether the work must be recordable.
  [[nodiscard]] bool wanted() const { return graph_ != nullptr; }
  /// From now on, operations are launched one by one.
  void give_up() { graph_.reset(); }

  /// Does `work` of step `step`, which is the same at each call. When it cannot be recorded, on any rank, one line says
  /// so and all go on without: `discard` then makes up for the call that was to be recorded. Collective.
  void run(int64_t step, const std::function<void()>& work, const std::function<void()>& discard);

 private:
  bool record(int64_t step, const std::function<void()>& work);

  /// By then libraries have chosen their kernels, and lasting buffers are there.
  static constexpr int64_t kLaunchedFirst = kFirstRuns - 1;

  std::unique_ptr<device::DeviceGraph> graph_;
  comm::Communicator& world_;
  const base::Logger& log_;
  int64_t runs_ = 0;
};

}  // namespace ddpm::engine
