#include "checkpoint/reshard_run.h"

#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/sole_writer.h"
#include "checkpoint/folders.h"
#include "checkpoint/reshard.h"
#include "checkpoint/run_files.h"
#include "comm/collectives.h"

namespace ddpm::checkpoint {
namespace {

/// A run folder inside another run's checkpoints would be taken for one of them.
void expect_outside_checkpoints(const base::FileSystem& files, const base::Path& output) {
  const base::Path whole = std::filesystem::weakly_canonical(output);
  for (base::Path folder = whole.parent_path(); folder != folder.root_path(); folder = folder.parent_path()) {
    const base::Path run = folder.parent_path();
    const bool of_a_run = files.exists(run / kConfigName) || files.exists(run / kLatestName);
    if (folder.filename() != kCheckpointsName || !of_a_run) continue;
    throw base::OutputError(
        "--output {}: lies among the checkpoints of the run {}; name a folder outside it, such as {}", output.string(),
        run.string(), run.string() + "-resharded");
  }
}

/// Keeps others from writing `output`, and removes what dead ones have left of it.
std::unique_ptr<base::SoleWriter> take_output(base::FileSystem& files, const base::Path& output) {
  expect_outside_checkpoints(files, output);
  files.create_directories(base::parent_of(output));
  auto sole = std::make_unique<base::SoleWriter>(files, output);
  if (sole->excludes()) base::remove_leftovers(files, output);
  if (!files.exists(output)) return sole;
  throw base::OutputError("--output {}: is already there; name a folder that is not", output.string());
}

/// Rank 0's part before the shards are written: the new run's folder, under a hidden name, with the configuration.
std::unique_ptr<base::StagedPath> prepare_output(base::FileSystem& files, const base::Path& run,
                                                 const base::Path& output, const base::Logger& logger) {
  constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 24U;
  auto staged = std::make_unique<base::StagedPath>(files, output);
  files.create_directory(staged->path());
  if (files.exists(run / kConfigName)) {
    base::write_atomically(files, staged->path() / kConfigName, files.read(run / kConfigName, kMaxConfigBytes));
  } else {
    logger.warn("{} has no {}: the new folder will hold a checkpoint, but no run to resume", run.string(), kConfigName);
  }
  return staged;
}

}  // namespace

SaveReport reshard_run(const Checkpoint& checkpoint, const ReshardRequest& request, base::FileSystem& files,
                       comm::Communicator& comm, const base::Logger& logger) {
  const base::Path output = base::plain_path(std::filesystem::absolute(request.output));
  std::unique_ptr<base::SoleWriter> sole;    // rank 0's, as the next
  std::unique_ptr<base::StagedPath> staged;  // removed again when anything below fails
  const base::Path folder = comm::agree_on_root(comm, [&] {
    sole = take_output(files, output);
    staged = prepare_output(files, request.run, output, logger);
    return staged->path().string();
  });
  CheckpointStore target(files, comm, folder, logger);
  SaveReport report = reshard(checkpoint, request.shards, files, comm, target);
  comm::do_on_root(comm, [&] { staged->publish(); });
  report.directory = output / kCheckpointsName / report.directory.filename();
  return report;
}

}  // namespace ddpm::checkpoint
