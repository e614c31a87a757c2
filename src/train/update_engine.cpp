#include "train/update_engine.h"

namespace ddpm::train {

bool has_whole_norm(const UpdateContext& context) {
  return context.state.arena.sharding().parts == 1 || context.rules.reproducible;
}

}  // namespace ddpm::train
