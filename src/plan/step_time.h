// How long a step takes: computing, talking, and how much of the talking hides behind the computing.
//
// A ring over n ranks moves B bytes of a buffer in
//   reduce-scatter, all-gather   (n-1) α + (n-1)/n · B β          all-reduce   twice that
// (Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH", 2005, with α per
// message and β per byte). Over k nodes of g ranks each it goes in two levels: rings within the nodes, then rings
// between them over the g-th parts, which share each node's links.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/arrangement.h"
#include "plan/machine.h"

namespace ddpm::plan {

enum class CollectiveKind : uint8_t { all_reduce, reduce_scatter, all_gather, exchange };
constexpr auto names_of(CollectiveKind /*type*/) {
  return std::to_array<std::string_view>({"all-reduce", "reduce-scatter", "all-gather", "exchange"});
}

/// The ranks that talk: `nodes` × `local` of them; `sharers` such groups use a node's links at the same time.
struct Group {
  int64_t nodes = 1;
  int64_t local = 1;
  int64_t sharers = 1;
  [[nodiscard]] int64_t size() const { return nodes * local; }
};

/// One line of a step's communication.
struct Traffic {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string what = {};  ///< "gradients", "weights"
  Group group = {};
  int64_t calls = 0;         ///< per step
  int64_t buffer_bytes = 0;  ///< all calls together: the buffers as a whole, or what a rank sends in exchanges
  bool hidden_by_forward = false;
  bool hidden_by_backward = false;
  double hideable = 1.0;  ///< the share of the step's micro-batches that it runs beside

  /// What a rank sends (and receives) per step: (n-1)/n of the buffers, twice for an all-reduce; of exchanges all.
  [[nodiscard]] int64_t sent_bytes() const;
};

/// What the ranks exchange in one optimizer step, one line per kind, group and purpose; nothing on one rank.
std::vector<Traffic> traffic_of(const ModelSizes& model, const Arrangement& arrangement);

/// Seconds that one line takes by itself.
double seconds_of(const Traffic& traffic, const Machine& machine);

/// Seconds of one optimizer step.
struct StepTime {
  double forward = 0.0;
  double backward = 0.0;  ///< with what activation checkpointing computes again
  double bubble = 0.0;    ///< waiting for other stages of the pipeline
  double update = 0.0;    ///< clipping, AdamW, averages: bound by memory
  double communication = 0.0;
  double exposed = 0.0;  ///< communication that nothing hides

  [[nodiscard]] double total() const { return forward + backward + bubble + update + exposed; }
  /// Share of the step that forward and backward take.
  [[nodiscard]] double efficiency() const { return total() > 0.0 ? (forward + backward) / total() : 0.0; }
};

StepTime step_time(const ModelSizes& model, const Arrangement& arrangement, const Machine& machine);

}  // namespace ddpm::plan
