// Which arrangements a plan compares, and which it recommends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/combinations.h"
#include "train/plan/arrangement.h"
#include "train/plan/machine.h"
#include "train/plan/memory.h"
#include "train/plan/step_time.h"

namespace ddpm::train::plan {

struct Request {
  ModelSizes model;
  Arrangement given;                  ///< of the configuration, on all nodes
  std::optional<int64_t> shard_size;  ///< parallel.dp_shard_size, if set: no other is tried where it divides
  Machine machine;
  int64_t process_bytes = 0;           ///< of Memory
  std::optional<int64_t> limit_bytes;  ///< memory of one rank
};

/// One arrangement with what is predicted of it.
struct Candidate {
  Arrangement arrangement;
  Memory memory;
  StepTime time;
  std::vector<Traffic> traffic;
  bool fits = true;     ///< within the limit; true where none is known
  std::string refusal;  ///< why it cannot run; the predictions are empty then

  /// Node-seconds of a step: what is paid for.
  [[nodiscard]] double cost() const { return static_cast<double>(arrangement.nodes) * time.total(); }
  [[nodiscard]] bool works() const { return fits && refusal.empty(); }
};

/// What combinations.h asks of an arrangement.
config::Features features_of(const Arrangement& arrangement);

/// The prediction for one arrangement.
Candidate predict(const Request& request, const Arrangement& arrangement);

/// Nodes 1, 2, 4, ... and the given number, each with stages 0 to 3 (one rank alone: 0). The global batch stays; the
/// micro-batch is the largest divisor of a rank's share up to the given one. Of stages 1 to 3, the fastest shard group
/// that fits, among a node's ranks and all ranks.
std::vector<Candidate> candidates(const Request& request);

/// Of those that fit, the one with the least node-seconds per step; fewer nodes, and then the lower stage, where that
/// costs no more than 2 %. Null: none fits.
const Candidate* cheapest(const std::vector<Candidate>& all);
/// The same on `nodes` nodes only, by time.
const Candidate* fastest(const std::vector<Candidate>& all, int64_t nodes);

/// The largest divisor of `share` that is at most `micro_size`.
int64_t fitting_micro_size(int64_t share, int64_t micro_size);

}  // namespace ddpm::train::plan
