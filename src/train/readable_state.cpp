#include "train/readable_state.h"

#include <string>
#include <utility>

#include "denoise/image_record.h"
#include "run/snapshot.h"
#include "train/validation_record.h"

namespace ddpm::train {

void check_readable_state(checkpoint::SaveRequest& request) {
  request.check = [before = std::move(request.check)](const checkpoint::Manifest& manifest, const std::string& path) {
    before(manifest, path);
    const std::string origin = run::state_origin(path);
    read_validation_record(manifest.state, origin);
    if (denoise::holds_image_record(manifest.state)) denoise::read_image_record(manifest.state, origin);
  };
}

}  // namespace ddpm::train
