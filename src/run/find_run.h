// Finds the run that a DIR on the command line names.
#pragma once

#include <optional>
#include <string>

#include "base/file_system.h"
#include "comm/communicator.h"

namespace ddpm::run {

/// A run folder, and one checkpoint of it if that was named.
struct FoundRun {
  base::Path run;
  std::optional<base::Path> checkpoint = std::nullopt;
  bool configured = true;  ///< false: a folder that is a run by its checkpoints alone

  /// Whether it is a run for more than a folder of that name, which a model folder may hold, too.
  [[nodiscard]] bool certain() const { return checkpoint || configured; }
};

/// checkpoint::meant_step_folder() of a path without a slash at its end, as rank 0 sees it. Collective.
base::Path meant_checkpoint(const base::FileSystem& files, comm::Communicator& world, const base::Path& path);

/// Throws base::OutputError: a command wants a checkpoint of this run, given as DIR, and there is none.
[[noreturn]] void refuse_without_checkpoint(const std::string& run);

/// Looks on this rank alone, as find_run() does.
std::optional<FoundRun> look_for_run(const base::FileSystem& files, const base::Path& asked);

/// `asked`, relative or absolute, as a run folder (it holds config.toml, or a folder checkpoints) or as a checkpoint
/// folder (it holds a manifest, or has the name of one, with or without its zeros); none when it is neither. Rank 0
/// looks. Collective.
std::optional<FoundRun> find_run(const base::FileSystem& files, comm::Communicator& world, const base::Path& asked);

}  // namespace ddpm::run
