#include "run/find_run.h"

#include <cstdint>
#include <filesystem>

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

}  // namespace

std::optional<FoundRun> find_run(const base::FileSystem& files, comm::Communicator& world, const base::Path& asked) {
  // The run around RUN/checkpoints/step-N is found by name, also from inside it.
  const base::Path path = base::plain_path(std::filesystem::absolute(asked));
  const auto kind =
      static_cast<Kind>(comm::number_on_root(world, [&] { return static_cast<int64_t>(kind_of(files, path)); }));
  if (kind == Kind::run) return FoundRun{path};
  if (kind == Kind::unconfigured_run) return FoundRun{.run = path, .configured = false};
  if (kind == Kind::checkpoint) return FoundRun{path.parent_path().parent_path(), path};
  return std::nullopt;
}

}  // namespace ddpm::run
