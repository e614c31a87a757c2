#include "run/resume.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "checkpoint/folders.h"
#include "comm/collectives.h"
#include "config/resolve.h"
#include "run/find_run.h"
#include "run/snapshot.h"

namespace ddpm::run {
namespace {

constexpr const char* kNever = "never";

/// Whether checkpoint.resume is the path of a checkpoint.
bool names_checkpoint(const std::string& resume) { return resume != "auto" && resume != kNever; }

/// What checkpoint.resume names, however it is written, and through whichever links: checkpoints remember it.
std::string full_name(const std::string& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
  if (error) whole = std::filesystem::absolute(path).lexically_normal();
  std::string name = whole.string();
  if (name.ends_with('/')) name.pop_back();
  base::expect_utf8(name, "the full name of what checkpoint.resume names");
  return name;
}

/// The steps that these folders hold checkpoints of, newest first. Names do not tell: a displaced checkpoint has
/// another one until a run with the lock gives it its own back (checkpoint::sweep_leftovers).
std::vector<int64_t> steps_of(const std::vector<std::string>& candidates) {
  std::vector<int64_t> steps;
  for (const std::string& name : candidates) {
    const int64_t step = checkpoint::step_of_candidate(name).value();
    if (steps.empty() || steps.back() != step) steps.push_back(step);
  }
  return steps;
}

std::string shown_newest(const std::vector<int64_t>& steps) {
  return steps.empty() ? "none" : checkpoint::step_folder_name(steps.front());
}

/// Returns the newest readable checkpoint of the run if the run was started from `origin` before, so that repeating a
/// command continues the run.
std::optional<checkpoint::Checkpoint> find_descendant(checkpoint::CheckpointStore& store, const std::string& origin) {
  DDPM_CHECK(!origin.empty(), "no checkpoint is named");  // a run that never named one says "" in its state
  try {
    auto found = store.find();
    if (found && found->manifest.state.value("resumed_from", base::Json()) == base::Json(origin)) return found;
  } catch (const checkpoint::NoneReadableError&) {
    // So the named one is used. After any other error the newest may be whole, and starting again from the named one
    // would set it aside.
  }
  return std::nullopt;
}

/// Whoever resumes from the checkpoint says what is wrong with it.
std::optional<checkpoint::Manifest> readable_manifest(const base::FileSystem& files, const base::Path& folder) {
  try {
    return checkpoint::read_manifest(files, folder);
  } catch (const base::OutputError&) {
    return std::nullopt;
  }
}

std::optional<checkpoint::Manifest> newest_manifest(const base::FileSystem& files, const base::Path& run) {
  const base::Path checkpoints = run / checkpoint::kCheckpointsName;
  if (!files.exists(checkpoints)) return std::nullopt;
  for (const std::string& name : checkpoint::candidate_folders(files, checkpoints)) {
    if (auto manifest = readable_manifest(files, checkpoints / name)) return manifest;
  }
  return std::nullopt;
}

}  // namespace

std::string newest_state(const base::FileSystem& files, const base::Path& run, const std::string& content_hash) {
  const auto manifest = newest_manifest(files, run);
  return manifest && manifest->dataset_hash == content_hash ? manifest->state.dump() : "";
}

std::string state_of_other_images(const base::FileSystem& files, const base::Path& run, const std::string& resume) {
  auto manifest = newest_manifest(files, run);
  if (!manifest && names_checkpoint(resume)) {
    manifest = readable_manifest(files, checkpoint::meant_step_folder(files, base::plain_path(resume)));
  }
  return manifest ? manifest->state.dump() : "";
}

void expect_same_images(const checkpoint::Checkpoint& checkpoint, const std::string& content_hash,
                        const base::Path& dataset) {
  if (checkpoint.manifest.dataset_hash == content_hash) return;
  throw base::OutputError(
      "{} was trained on other images than {} holds now; wanted: those, or to go on with these, "
      "data.continue_with_other = true",
      checkpoint.directory.string(), dataset.string());
}

std::optional<checkpoint::Checkpoint> Resume::find(const RunFolder& run, checkpoint::CheckpointStore& store,
                                                   const base::FileSystem& files, comm::Communicator& world) {
  seen_ = steps_of(store.candidates());
  if (names_checkpoint(value_)) {
    // One rank looks: relative paths and links may differ between nodes.
    const base::Path place = meant_checkpoint(files, world, base::plain_path(value_));
    named_ = comm::agree_on_root(world, [&] { return full_name(place); });
    auto found = run.resumes() ? find_descendant(store, named_) : std::nullopt;
    resumed_before_ = found.has_value();
    return found ? std::move(found) : store.open(place);
  }
  if (!run.resumes()) return std::nullopt;
  auto found = store.find();
  comm::agree(world, [&] {
    if (!found || value_ != kNever) return;
    throw base::OutputError("{} has a checkpoint of step {}, but checkpoint.resume = \"never\": name another folder",
                            run.path().string(), found->manifest.step);
  });
  return found;
}

void Resume::expect_unchanged(const RunFolder& run, checkpoint::CheckpointStore& store,
                              comm::Communicator& world) const {
  const std::vector<int64_t> now = steps_of(store.candidates());
  comm::agree(world, [&] {
    if (now == seen_) return;
    throw base::OutputError(
        "{}: another run has worked in this folder while this one was starting: its "
        "newest checkpoint was {} and is now {}; repeat the command to continue from there",
        run.path().string(), shown_newest(seen_), shown_newest(now));
  });
}

void Resume::load(const checkpoint::Checkpoint& checkpoint, engine::TrainingState& state,
                  checkpoint::CheckpointStore& store, const config::Schema& configuration, comm::Communicator& world,
                  const base::Logger& log) const {
  if (resumed_before_) log.info("{} was resumed before; continuing from {}", value_, checkpoint.directory.string());
  restore(state, store, checkpoint);
  if (names_checkpoint(value_)) state.progress.resumed_from = named_;
  if (checkpoint.manifest.config_hash != config::identity_hash(configuration)) {
    log.warn("{} was saved under another configuration; this run continues from it under its own",
             checkpoint.directory.string());
  }
  if (checkpoint.manifest.world_size != world.size()) {
    log.info("saved by {}, continuing with {}", base::counted(checkpoint.manifest.world_size, "rank"), world.size());
  }
  const int64_t before = std::max<int64_t>(1, islands_in(checkpoint.manifest));
  const int64_t now = std::max<int64_t>(1, state.arena.sharding().islands);
  if (now < before) {
    log.warn("saved by {}, continuing with {}: what the others have learned since the last outer step is left out",
             base::counted(before, "island"), now);
  } else if (now > before) {
    log.info("saved by {}, continuing with {}: new ones begin as one that was saved", base::counted(before, "island"),
             now);
  }
}

}  // namespace ddpm::run
