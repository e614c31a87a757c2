// Finds the run that a DIR on the command line names.
#pragma once

#include <optional>

#include "base/file_system.h"
#include "comm/communicator.h"

namespace ddpm::run {

/// A run folder, and one checkpoint of it if that was named.
struct FoundRun {
  base::Path run;
  std::optional<base::Path> checkpoint = std::nullopt;
  bool configured = true;  ///< false: a folder that is a run by its checkpoints alone
};

/// `asked`, relative or absolute, as a run folder (it holds config.toml, or a folder checkpoints) or as a checkpoint
/// folder (it holds a manifest, or has the name of one); none when it is neither. Rank 0 looks. Collective.
std::optional<FoundRun> find_run(const base::FileSystem& files, comm::Communicator& world, const base::Path& asked);

}  // namespace ddpm::run
