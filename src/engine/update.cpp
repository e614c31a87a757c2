#include "engine/update.h"

namespace ddpm::engine {

bool has_whole_norm(const UpdateContext& context) {
  const parallel::Sharding& sharding = context.state.arena.sharding();
  return (sharding.parts == 1 && sharding.channel_parts == 1 && sharding.stages == 1) ||
         context.rules.parallelism.reproducible;
}

}  // namespace ddpm::engine
