#include "train/run_start.h"

#include <algorithm>

#include "base/disk_space.h"
#include "base/error.h"
#include "base/json.h"
#include "comm/collectives.h"
#include "train/checkpointing.h"

namespace ddpm::train {
namespace {

/// Starts from `step` so far. A file that cannot be understood counts as none: it protects nothing but patience.
int64_t starts_from(base::FileSystem& files, const base::Path& path, int64_t step) {
  constexpr uint64_t kMaxBytes = 4096;
  if (!files.exists(path)) return 0;
  const auto json = base::Json::parse(files.read(path, kMaxBytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return 0;
  const auto number = [&json](const char* key) -> int64_t {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
  };
  return number("step") == step ? std::max<int64_t>(number("starts"), 0) : 0;
}

}  // namespace

void start_run(RunDirectory& run, checkpoint::CheckpointStore& store, Saver& saver, const Runtime& runtime,
               const Resume& resume, const std::optional<checkpoint::Checkpoint>& loaded, const TrainedState& state,
               const FaultConfig& fault) {
  comm::Communicator& world = runtime.session.world();
  comm::agree_on_root(world, [&] {
    base::expect_room(runtime.files, run.path(), static_cast<uint64_t>(checkpoint_bytes(state)),
                      "a checkpoint with the finished model");
    return std::string();
  });
  run.lock(runtime.force_unlock);
  store.set_guard([&run] { run.expect_owned(); });
  resume.expect_unchanged(run, store, world);
  const int64_t step = state.progress.step;
  comm::agree_on_root(world, [&] {
    count_start(runtime.files, run.path(), step, fault.max_starts_without_progress);
    return std::string();
  });
  run.claim();
  if (!loaded || !run.resumes()) return;
  if (loaded->directory == store.directory(step)) saver.set_newest_step(step);
  store.set_aside_newer(step);
}

void count_start(base::FileSystem& files, const base::Path& run_directory, int64_t step, int64_t limit) {
  const base::Path path = run_directory / kStartsName;
  const int64_t starts = starts_from(files, path, step);
  if (limit > 0 && starts >= limit) {
    throw base::CommunicationError(
        "{}: started {} times from step {} without reaching another checkpoint; look at what ended it, then remove {} "
        "or raise fault.max_starts_without_progress = {}",
        run_directory.string(), starts, step, path.string(), limit);
  }
  base::write_atomically(files, path, base::Json{{"step", step}, {"starts", starts + 1}}.dump() + "\n");
}

}  // namespace ddpm::train
