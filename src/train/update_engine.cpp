#include "train/update_engine.h"

#include "train/device_update.h"
#include "train/host_update.h"

namespace ddpm::train {

bool has_whole_norm(const UpdateContext& context) {
  return context.state.arena.sharding().parts == 1 || context.rules.reproducible;
}

std::unique_ptr<UpdateEngine> make_update_engine(const UpdateContext& context) {
  const parallel::ParameterArena& arena = context.state.arena;
  const bool on_device = !arena.gradient().is_cpu() || context.rules.device_update;
  if (on_device && arena.sharding().offload == parallel::Offload::none) return std::make_unique<DeviceUpdate>(context);
  return std::make_unique<HostUpdate>(context);
}

}  // namespace ddpm::train
