#include "parallel/activation_checkpointing.h"

#include <utility>

#include "base/error.h"
#include "nn/recompute.h"

namespace ddpm::parallel {

ActivationCheckpointing parse_activation_checkpointing(const std::string& name) {
  if (name == "none") return ActivationCheckpointing::none;
  if (name == "blocks") return ActivationCheckpointing::blocks;
  if (name == "attention") return ActivationCheckpointing::attention;
  throw base::ConfigError("parallel.activation_checkpointing: \"{}\" is unknown; wanted one of none, blocks, attention",
                          name);
}

nn::State ActivationCheckpointer::run(const nn::Unit& unit, std::size_t index, nn::State state,
                                      const nn::Context& context) {
  switch (what_) {
    case ActivationCheckpointing::none:
      return run_inner(unit, index, std::move(state), context);
    case ActivationCheckpointing::attention:
      return run_inner(unit, index, std::move(state), {context.random, context.partition, true});
    case ActivationCheckpointing::blocks:
      return nn::recompute_in_backward(std::move(state), [this, &unit, index, context](nn::State again) {
        return run_inner(unit, index, std::move(again), context);
      });
  }
  throw base::InternalError("activation checkpointing {} is not in the list", static_cast<int>(what_));
}

}  // namespace ddpm::parallel
