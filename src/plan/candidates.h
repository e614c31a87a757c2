// Which arrangements a plan compares, and which it recommends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/arrangement.h"
#include "plan/machine.h"
#include "plan/memory.h"
#include "plan/step_time.h"

namespace ddpm::plan {

struct Request {
  ModelSizes model;
  Arrangement given;  ///< the configuration's, on all nodes; no dp_shard_size but its own is tried where it divides
  std::string given_refusal;  ///< why `given` cannot run, "" if it can
  Machine machine;
  int64_t process_bytes = 0;           ///< value of Memory::process
  std::optional<int64_t> limit_bytes;  ///< memory that one rank may use
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
  /// What a node's ranks that compute on GPUs take of the host's memory (Memory::beside).
  [[nodiscard]] int64_t host_bytes() const { return arrangement.ranks_per_node * memory.beside.total(); }
  [[nodiscard]] bool works() const { return fits && refusal.empty(); }
};

/// The prediction for one arrangement.
Candidate predict(const Request& request, const Arrangement& arrangement);

/// The prediction for `given`, or its refusal.
Candidate configured(const Request& request);

/// Stages 0 to 3 on the nodes of `arrangement`, but for those in which ranks share nothing: each with the largest
/// micro-batch up to its own that divides a rank's share, and the fastest shard group that fits, among a node's ranks
/// and all ranks. With parallel.sync_every they have the islands of the given arrangement, of whose number training is
/// a function, or a refusal.
std::vector<Candidate> stages_of(const Request& request, const Arrangement& arrangement);

/// Nodes 1, 2, 4, ... and the given number, each with stages_of(). The global batch stays.
std::vector<Candidate> candidates(const Request& request);

/// Returns, on `nodes` nodes, of which `all` has some, the configuration's own stage, or the first that there is.
const Candidate& in_own_stage(const Request& request, const std::vector<Candidate>& all, int64_t nodes);
/// Returns the lowest stage that fits on `nodes` nodes, or null. Higher stages save memory only; where there is enough
/// of it, their communication is not worth its price.
const Candidate* plainest(const std::vector<Candidate>& all, int64_t nodes);
/// Among the plainest of all numbers of nodes, the one with the least node-seconds per step; fewer nodes where that
/// costs no more than 2 %. Returns null if none fits.
const Candidate* cheapest(const std::vector<Candidate>& all);
/// Returns, on `nodes` nodes, the stage with the shortest step, or a lower one where that takes no more than 10 %
/// longer.
const Candidate* fastest(const std::vector<Candidate>& all, int64_t nodes);

/// The largest divisor of `share` that is at most `micro_size`.
int64_t fitting_micro_size(int64_t share, int64_t micro_size);

}  // namespace ddpm::plan
