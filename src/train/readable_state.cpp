#include "train/readable_state.h"

#include <string>
#include <utility>

#include "train/checkpointing.h"
#include "train/image_state.h"
#include "train/validation_record.h"

namespace ddpm::train {

void check_readable_state(checkpoint::SaveRequest& request) {
  request.check = [before = std::move(request.check)](const checkpoint::Manifest& manifest, const std::string& path) {
    before(manifest, path);
    const std::string origin = state_origin(path);
    read_validation_record(manifest.state, origin);
    if (holds_image_state(manifest.state)) read_image_state(manifest.state, origin);
  };
}

}  // namespace ddpm::train
