#include "train/mean_record.h"

#include <utility>

#include "comm/collectives.h"
#include "run/snapshot.h"

namespace ddpm::train {

MeanRecord::MeanRecord(std::shared_ptr<const denoise::LoadedModel> mean, comm::Communicator& world)
    : mean_(std::move(mean)), world_(world) {
  denoise::write_mean(mean_.get(), record_);
}

void MeanRecord::resume(const checkpoint::Checkpoint& checkpoint) {
  if (!mean_) return;
  comm::do_on_root(
      world_, [&] { denoise::expect_mean(checkpoint.manifest.state, mean_.get(), run::state_origin(checkpoint)); });
}

}  // namespace ddpm::train
