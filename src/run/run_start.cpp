#include "run/run_start.h"

#include <algorithm>

#include "base/disk_space.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/folders.h"
#include "comm/collectives.h"
#include "run/snapshot.h"

namespace ddpm::run {
namespace {

/// Starts from `step` so far. A file that cannot be parsed counts as absent, since it only guards against endless
/// restarts.
int64_t starts_from(base::FileSystem& files, const base::Path& path, int64_t step) {
  constexpr uint64_t kMaxBytes = 4096;
  if (!files.exists(path)) return 0;
  const auto json = base::Json::parse(files.read(path, kMaxBytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return 0;
  const auto number = [&json](const char* key) -> int64_t {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
  };
  constexpr int64_t kMost = int64_t{1} << 32;
  return number("step") == step ? std::clamp<int64_t>(number("starts"), 0, kMost) : 0;
}

void expect_room(base::FileSystem& files, const base::Path& folder, int64_t bytes, int64_t finished_models) {
  const std::string what = finished_models == 0   ? "a checkpoint"
                           : finished_models == 1 ? "a checkpoint with the finished model"
                                                  : "a checkpoint with the finished model and the best one";
  base::expect_room(files, folder, static_cast<uint64_t>(bytes), what);
}

/// How often the run was started from `step` so far; throws when that is too often.
int64_t starts_so_far(base::FileSystem& files, const base::Path& run_directory, int64_t step, int64_t limit) {
  const base::Path path = run_directory / checkpoint::kStartsName;
  const int64_t starts = starts_from(files, path, step);
  if (limit > 0 && starts >= limit) {
    throw base::CommunicationError(
        "{}: started {} times from step {} without reaching another checkpoint; look at what ended it, then remove {} "
        "or raise fault.max_starts_without_progress = {}",
        run_directory.string(), starts, step, path.string(), limit);
  }
  return starts;
}

/// Checks everything that may stand in the way of a run that has the lock. A start that is asked to stop at once is
/// counted, too: a job whose time limit is too short for the first step would otherwise be requeued for ever.
void expect_to_run(const RunParts& parts, const Runtime& runtime, const engine::TrainingState& state,
                   const FaultConfig& fault) {
  comm::Communicator& world = runtime.session.world();
  const base::Path& folder = parts.run.path();
  parts.run.expect_shared();
  // Ranks with the same units of the model count the same, and those of other stages the rest.
  const int64_t with_same_units = world.size() / state.arena.sharding().stages;
  const int64_t bytes =
      comm::all_reduce(world, checkpoint_bytes(state, parts.finished_models), comm::ReduceOp::sum) / with_same_units;
  comm::do_on_root(world, [&] {
    checkpoint::sweep_leftovers(runtime.files, folder, runtime.log);
    expect_room(runtime.files, folder, bytes, parts.finished_models);
  });
  parts.resume.expect_unchanged(parts.run, parts.store, world);
  comm::do_on_root(world,
                   [&] { count_start(runtime.files, folder, state.progress.step, fault.max_starts_without_progress); });
  parts.supervision.end_if_asked();
}

}  // namespace

void start_run(const RunParts& parts, const Runtime& runtime, const std::optional<checkpoint::Checkpoint>& loaded,
               const engine::TrainingState& state, const FaultConfig& fault) {
  RunFolder& run = parts.run;
  run.lock(runtime.force_unlock);
  parts.store.set_guard([&run] { run.expect_owned(); });
  try {
    expect_to_run(parts, runtime, state, fault);
  } catch (const comm::AgreedError&) {
    run.withdraw();
    throw;
  } catch (const Stopped&) {
    run.withdraw();
    throw;
  }
  run.claim();
  if (!loaded || !run.resumes()) return;
  const int64_t step = state.progress.step;
  const auto is_own = [&] { return parts.store.is_own(loaded->directory, step); };
  if (comm::ask_root(runtime.session.world(), is_own)) parts.saver.set_newest_step(step);
  parts.store.set_aside_newer(step);
}

void expect_startable(base::FileSystem& files, const base::Path& run_directory, int64_t bytes, int64_t finished_models,
                      int64_t step, const FaultConfig& fault) {
  expect_room(files, run_directory, bytes, finished_models);
  static_cast<void>(starts_so_far(files, run_directory, step, fault.max_starts_without_progress));
}

void count_start(base::FileSystem& files, const base::Path& run_directory, int64_t step, int64_t limit) {
  const int64_t starts = starts_so_far(files, run_directory, step, limit);
  base::write_atomically(files, run_directory / checkpoint::kStartsName,
                         base::Json{{"step", step}, {"starts", starts + 1}}.dump() + "\n");
}

}  // namespace ddpm::run
