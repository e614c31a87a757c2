#include "run/find_run.h"

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "checkpoint/folders.h"
#include "checkpoint/run_files.h"
#include "comm/collectives.h"

namespace ddpm::run {
namespace {

enum class Kind : uint8_t { neither, run, unconfigured_run, checkpoint };

Kind kind_of(const base::FileSystem& files, const base::Path& path) {
  const bool named = checkpoint::step_of_candidate(path.filename().string()) && files.exists(path);
  if (named || files.exists(path / checkpoint::kManifestName)) return Kind::checkpoint;
  if (files.exists(path / checkpoint::kConfigName)) return Kind::run;
  return files.exists(path / checkpoint::kCheckpointsName) ? Kind::unconfigured_run : Kind::neither;
}

/// The run around RUN/checkpoints/step-N is found by name, also from inside it.
base::Path place_of(const base::Path& asked) { return base::plain_path(std::filesystem::absolute(asked)); }

std::optional<FoundRun> found_run(Kind kind, const base::Path& path) {
  if (kind == Kind::run) return FoundRun{path};
  if (kind == Kind::unconfigured_run) return FoundRun{.run = path, .configured = false};
  if (kind == Kind::checkpoint) return FoundRun{path.parent_path().parent_path(), path};
  return std::nullopt;
}

}  // namespace

base::Path meant_checkpoint(const base::FileSystem& files, comm::Communicator& world, const base::Path& path) {
  const std::string name =
      comm::agree_on_root(world, [&] { return checkpoint::meant_step_folder(files, path).filename().string(); });
  return path.parent_path() / name;
}

void refuse_without_checkpoint(const std::string& run) { throw base::OutputError("{} has no checkpoint yet", run); }

std::optional<FoundRun> look_for_run(const base::FileSystem& files, const base::Path& asked) {
  const base::Path path = checkpoint::meant_step_folder(files, place_of(asked));
  return found_run(kind_of(files, path), path);
}

std::optional<FoundRun> find_run(const base::FileSystem& files, comm::Communicator& world, const base::Path& asked) {
  const base::Path path = meant_checkpoint(files, world, place_of(asked));
  const int64_t kind = comm::number_on_root(world, [&] { return static_cast<int64_t>(kind_of(files, path)); });
  return found_run(static_cast<Kind>(kind), path);
}

}  // namespace ddpm::run
