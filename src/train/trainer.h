// `ddpm train`: from a configuration to a trained model, started and resumed by the same call.
#pragma once

#include "base/file_system.h"
#include "base/log.h"
#include "comm/session.h"
#include "train/config.h"

namespace ddpm::train {

/// What a run needs from the process it runs in.
struct Runtime {
  comm::MpiSession& session;
  base::FileSystem& files;
  const base::Logger& log;
};

/// Trains until the configured number of steps and writes RUN/model. Collective over the session's world. A finished
/// run returns at once and changes nothing. Throws the typed errors of base/error.h; a run refused before its first
/// step leaves no new file behind.
void train(const Configuration& configuration, const Runtime& runtime);

}  // namespace ddpm::train
