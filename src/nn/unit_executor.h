// How a forward pass runs its units, one after another: the seam for activation checkpointing, sharded parameters,
// profiling and counting.
//
// Executors form a chain. Each holds the next inner one and does its work around it; the innermost runs the unit:
//
//   ShardedExecutor sharded(&checkpointing);   // gather; checkpointing.run(...); free
//
// What an outer executor puts in place for run(), it must also put in place for the unit's backward: an inner one may
// run the unit's forward again then, and reads the parameters anew. A hook on the gradients of what run() returned
// (UnitState::x, UnitState::picture, and UnitState::temb and embedding of the first unit) comes before all of that.
#pragma once

#include <cstddef>
#include <utility>

#include "nn/unit.h"

namespace ddpm::nn {

class UnitExecutor {
 public:
  /// `inner` outlives this executor; null: units run directly.
  explicit UnitExecutor(UnitExecutor* inner = nullptr) : inner_(inner) {}
  UnitExecutor(const UnitExecutor&) = delete;
  UnitExecutor& operator=(const UnitExecutor&) = delete;
  virtual ~UnitExecutor() = default;

  /// Maps `state` to what unit.forward(state, context) returns; `index` is the unit's place in UNet2D::units(). The
  /// executors, the unit and context.partition outlive the graph that this builds.
  [[nodiscard]] virtual UnitState run(const Unit& unit, std::size_t index, UnitState state,
                                      const ForwardContext& context) {
    return run_inner(unit, index, std::move(state), context);
  }

  /// Has units that are passed on run in `inner`, which outlives their graphs. Returns what they ran in before.
  UnitExecutor* run_in(UnitExecutor* inner) { return std::exchange(inner_, inner); }

 protected:
  [[nodiscard]] UnitState run_inner(const Unit& unit, std::size_t index, UnitState state,
                                    const ForwardContext& context) const {
    return inner_ != nullptr ? inner_->run(unit, index, std::move(state), context)
                             : unit.forward(std::move(state), context);
  }

 private:
  UnitExecutor* inner_;
};

}  // namespace ddpm::nn
