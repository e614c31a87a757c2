// What a checkpoint of `ddpm train` says beside its counters must be readable before it is published.
#pragma once

#include "checkpoint/store.h"

namespace ddpm::train {

/// Has the validation record and the image state of `request` read, as a resumed run and `ddpm sample` do, after what
/// the request checks already.
void check_readable_state(checkpoint::SaveRequest& request);

}  // namespace ddpm::train
