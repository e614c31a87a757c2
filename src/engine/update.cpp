#include "engine/update.h"

namespace ddpm::engine {

bool has_whole_norm(const UpdateContext& context) {
  return context.state.arena.sharding().parts == 1 || context.rules.parallelism.reproducible;
}

}  // namespace ddpm::engine
