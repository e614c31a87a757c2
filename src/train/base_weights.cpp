#include "train/base_weights.h"

#include "base/utf8.h"
#include "comm/collectives.h"
#include "denoise/pretrained.h"
#include "run/snapshot.h"
#include "train/readable_state.h"

namespace ddpm::train {

base::Path find_base(const Config& config, comm::Communicator& world) {
  base::Path place;
  comm::agree(world, [&] { place = denoise::pretrained_folder(config.model_source); });
  comm::do_on_root(world, [&] { denoise::expect_base(place, "model.pretrained"); });
  return place;
}

void BaseWeights::read(UNetState& model) {
  if (!needed()) return;
  denoise::AdapterBase read = denoise::read_base_weights(
      find_base(config_, world_), model.unet, world_,
      [&model](const std::string& name, const at::Tensor& values) { model.assign(name, values); });
  comm::agree(world_, [&] {
    base::expect_utf8(read.path, "the full name of the model that adapters are trained beside");
    if (base_) denoise::expect_same_base(*base_, read);
  });
  base_ = std::move(read);
}

void BaseWeights::resume(const checkpoint::Checkpoint& checkpoint) {
  if (!needed()) return;
  comm::agree(world_,
              [&] { base_ = denoise::read_adapter_base(checkpoint.manifest.state, run::state_origin(checkpoint)); });
}

void BaseWeights::write(checkpoint::SaveRequest& request) {
  if (!needed()) return;
  denoise::write_adapter_base(*base_, request.state);
  check_also(request, denoise::read_adapter_base);
}

}  // namespace ddpm::train
