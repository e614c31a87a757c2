#include "train/readable_state.h"

#include <utility>

#include "run/snapshot.h"

namespace ddpm::train {

void check_also(checkpoint::SaveRequest& request, StateReader read) {
  request.check = [before = std::move(request.check), read = std::move(read)](const checkpoint::Manifest& manifest,
                                                                              const std::string& path) {
    if (before) before(manifest, path);
    read(manifest.state, run::state_origin(path));
  };
}

}  // namespace ddpm::train
