#include "parallel/activation_checkpointing.h"

#include <utility>

#include "base/error.h"
#include "nn/recompute.h"

namespace ddpm::parallel {

nn::UnitState ActivationCheckpointer::run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                                          const nn::ForwardContext& context) {
  switch (what_) {
    case ActivationCheckpointing::none:
      return run_inner(unit, index, std::move(state), context);
    case ActivationCheckpointing::attention:
      return run_inner(unit, index, std::move(state), {context.random, context.partition, true});
    case ActivationCheckpointing::blocks:
      return nn::recompute_in_backward(std::move(state), [this, &unit, index, context](nn::UnitState again) {
        return run_inner(unit, index, std::move(again), context);
      });
  }
  throw base::InternalError("activation checkpointing {} is not in the list", static_cast<int>(what_));
}

}  // namespace ddpm::parallel
