// What a callback adds to a checkpoint must be readable before the checkpoint is published.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/store.h"

namespace ddpm::train {

/// Reads a part of a checkpoint's state, as a later start will. Throws OutputError, which begins with `origin`, when
/// that is damaged.
using StateReader = std::function<void(const base::Json& state, const std::string& origin)>;

/// Has `read` called on the state of `request`, after what is checked already. A callback that adds to a checkpoint
/// passes what reads its part.
void check_also(checkpoint::SaveRequest& request, StateReader read);

}  // namespace ddpm::train
