// Numbers that a program logs of its own model: their means over the micro-batches of a step, on all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "comm/communicator.h"
#include "train/logging.h"

namespace ddpm::train {

/// It comes before the callback that logs, and after those that may give numbers.
class OwnMetrics final : public Callback {
 public:
  /// `logging` says which steps are logged. Both outlive this object.
  OwnMetrics(const Logging& logging, comm::Communicator& world) : logging_(logging), world_(world) {}

  /// Counts the numbers to the step under way. Throws ConfigError for a name that cannot be one
  /// (observe::own_name_problem).
  void add(const std::map<std::string, double>& values);
  /// Forgets them, after the step.
  void clear() { sums_.clear(); }

  [[nodiscard]] bool due(const FinishedStep& step) const override { return logging_.due(step); }
  [[nodiscard]] bool reads_state() const override { return false; }
  /// Throws CommunicationError on all ranks when they were given other names.
  void run(FinishedStep& step) override;

 private:
  struct Sum {
    double values = 0.0;
    int64_t count = 0;
  };
  const Logging& logging_;
  comm::Communicator& world_;
  std::map<std::string, Sum> sums_;
};

}  // namespace ddpm::train
