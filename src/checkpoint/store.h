// The checkpoints of one run: RUN/checkpoints/step-00001000/{shard-RRRRR-of-WWWWW.safetensors, MANIFEST.json},
// RUN/LATEST.
//
// Commit order, which keeps every reported checkpoint readable after any crash:
//   1. rank 0 makes .tmp-step-N-<id>, an exclusive mkdir; all agree on <id>
//   2. each rank writes its shard (O_EXCL), hashes it on the way, fsyncs, closes, and compares what the disk now holds
//      with that hash; all agree
//   3. rank 0 writes MANIFEST.json, fsyncs it, compares it likewise, and fsyncs the folder
//   4. rename to step-N, fsync of the parent, then LATEST, replaced atomically; all agree
//   5. only then retention
// Step 2 makes no collective call, so that it can run on a thread of its own (begin, write_shard, commit).
//
// All functions but write_shard are collective: every rank calls them, and when one rank fails all throw
// comm::AgreedError together. Errors have exit code 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/input_file.h"
#include "base/log.h"
#include "checkpoint/folders.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retention.h"
#include "checkpoint/slice.h"
#include "comm/collectives.h"
#include "comm/communicator.h"

namespace ddpm::checkpoint {

using LocalSlice = std::pair<TensorSlice, std::span<const std::byte>>;
using WantedSlice = std::pair<TensorSlice, std::span<std::byte>>;

struct SaveRequest {
  int64_t step = 0;
  base::Json state = base::Json::object();  ///< scalars, the same on every rank
  std::string config_hash = {};
  std::string dataset_hash = {};
  /// What this rank writes. Over all ranks the slices cover each tensor exactly once; empty ones are skipped.
  std::vector<LocalSlice> slices = {};
  Retention retention = {};
  /// Reads the manifest as a later start will, on rank 0: what it throws keeps the checkpoint from being published.
  std::function<void(const Manifest& manifest, const std::string& origin)> check = {};
  int64_t world_size = 0;  ///< what the manifest says of who wrote it; 0: the ranks of the communicator
};

struct SaveReport {
  base::Path directory;
  int64_t bytes = 0;  ///< shards of all ranks
  double seconds = 0;
};

/// A checkpoint whose manifest was parsed and whose files all matched their checksums when it was opened.
struct Checkpoint {
  base::Path directory;
  Manifest manifest;
  /// The files that this rank has compared with their checksums, as they were before.
  std::vector<std::pair<std::string, base::FileStamp>> compared = {};
};

/// Thrown by find() on all ranks: the newest checkpoint cannot be read just now, and may be whole.
struct UnreadableError : comm::AgreedError {
  explicit UnreadableError(const comm::AgreedError& error) : AgreedError(error) {}
};

/// Thrown by find() on all ranks: the newest checkpoint is whole, and of a format that this program does not know.
struct NewerCheckpointError : comm::AgreedError {
  explicit NewerCheckpointError(const comm::AgreedError& error) : AgreedError(error) {}
};

/// Thrown by find() on all ranks: the run has had checkpoints, and none is there that is not damaged.
struct NoneReadableError : comm::AgreedError {
  explicit NoneReadableError(const comm::AgreedError& error) : AgreedError(error) {}
};

/// Why a checkpoint that could not be opened may be whole all the same, as one rank has seen it.
struct Doubt {
  bool unreadable = false;  ///< access was denied
  bool newer = false;       ///< a format that this program does not know
};

/// A checkpoint folder as `ddpm checkpoint list` shows it.
struct CheckpointInfo {
  base::Path directory;
  int64_t step = 0;
  int64_t world_size = 0;    ///< ranks that wrote it; 0 where its manifest cannot be read, as with the next two
  int64_t bytes = 0;         ///< size of all shards together
  int64_t written = 0;       ///< time of its manifest: seconds since 1970
  std::string problem = {};  ///< "" for a readable one
  bool unreadable = false;   ///< the problem is one of access: it may be whole
  bool newer = false;        ///< it is whole, and of a format that this program does not know

  /// Whether CheckpointStore::find() passes over it: nothing says that it may be whole.
  [[nodiscard]] bool damaged() const { return !problem.empty() && !unreadable && !newer; }
};

/// The one of these, oldest first, that CheckpointStore::find() takes as long as they are all there is; null where they
/// are all damaged, and where the newest other one cannot be read, by which find() ends.
const CheckpointInfo* newest_of(std::span<const CheckpointInfo> found);

/// Between begin() and commit(). The request's spans must stay alive and unchanged until then.
struct PendingSave {
  SaveRequest request;
  base::Path directory;  ///< the temporary folder
  double start_seconds = 0;
  std::vector<ManifestFile> files = {};      ///< what this rank wrote: filled by write_shard
  std::vector<ManifestTensor> tensors = {};  ///< the slices in those files, one each
};

class CheckpointStore {
 public:
  CheckpointStore(base::FileSystem& files, comm::Communicator& comm, base::Path run_directory,
                  const base::Logger& logger);

  /// `guard` is called on rank 0 before anything in the run folder is published, displaced or removed; what it throws
  /// fails that call on all ranks. It is meant for the run's lock (RunLock::expect_owned), since a run that has lost
  /// its folder to another must not touch it. Without a guard, the caller must know that nobody else writes there.
  void set_guard(std::function<void()> guard) { guard_ = std::move(guard); }
  /// Whether the guard lets this run write now. Collective.
  [[nodiscard]] bool may_write();

  /// Calls begin, write_shard and commit.
  SaveReport save(SaveRequest request);

  /// Does step 1. Also removes what dead runs left behind: the caller holds the run's lock (run_lock.h).
  [[nodiscard]] PendingSave begin(SaveRequest request);
  /// Does this rank's part of step 2, without a collective call and on any thread. Throws on this rank only: catch the
  /// error and pass it to commit.
  void write_shard(PendingSave& pending) const;
  /// Does steps 3 to 5. `failure` is this rank's error of write_shard, "" if none: when any rank has one, all throw.
  SaveReport commit(PendingSave pending, const std::string& failure = {});

  /// Where the checkpoint of a step is, or would be.
  [[nodiscard]] base::Path directory(int64_t step) const { return checkpoints() / step_folder_name(step); }
  /// Whether `folder` is where this run has, or had, its checkpoint of that step: under its own name, or displaced by
  /// another one (folders.h). Paths are compared in one form, however they are written.
  [[nodiscard]] bool is_own(const base::Path& folder, int64_t step) const;
  /// Names of the folders in RUN/checkpoints that may hold one, newest first.
  [[nodiscard]] std::vector<std::string> candidates();
  /// The newest checkpoint that matches its checksums, or none. Damaged ones are passed over with a warning each; one
  /// that cannot be read just now (base::AccessError) may be whole: throws UnreadableError; for one of a newer format
  /// (NewerFormatError) throws NewerCheckpointError. When there are checkpoints but none is readable, or LATEST names
  /// one and there is none, throws NoneReadableError. Changes nothing on disk.
  [[nodiscard]] std::optional<Checkpoint> find();
  /// Opens that checkpoint folder; throws when it is damaged. Never falls back to another one.
  [[nodiscard]] Checkpoint open(const base::Path& directory);
  /// Fills `wanted` of this rank, from a checkpoint of any number of ranks. Throws when a tensor is missing or has
  /// another dtype or global shape, and when a file has changed since it was opened, by its size and time.
  void load(const Checkpoint& checkpoint, std::span<const WantedSlice> wanted);

  /// Gives the checkpoints newer than `step` names that find() passes over (abandoned-step-N-<id>): the run was resumed
  /// from an older one, and they belong to another history. LATEST then names the newest of the others, or goes where
  /// there is none. No checkpoint is removed. The caller holds the run's lock.
  void set_aside_newer(int64_t step);

  /// All checkpoint folders, oldest first, with checksums verified when `deep`, and only manifests and file sizes
  /// otherwise. Folders that an active run removes meanwhile are left out.
  [[nodiscard]] std::vector<CheckpointInfo> list(bool deep);
  /// Describes one folder as list() does. Returns nothing when the folder was removed meanwhile.
  [[nodiscard]] std::optional<CheckpointInfo> inspect(const base::Path& directory, bool deep);

 private:
  [[nodiscard]] base::Path checkpoints() const { return run_directory_ / kCheckpointsName; }
  /// Like open(); where it fails, `doubt` tells of what this rank has seen.
  [[nodiscard]] Checkpoint open(const base::Path& directory, Doubt& doubt);
  void verify_part(Checkpoint& checkpoint);
  /// Whether the folder is gone because an active run removed it. `doubt` of rank 0 says where that cannot be told.
  /// Collective.
  [[nodiscard]] bool is_gone(const base::Path& directory, Doubt& doubt);
  /// Throws NoneReadableError when one of these candidates, or LATEST, says that there was a checkpoint. Collective.
  void expect_none(const std::vector<std::string>& candidates);
  void commit_on_root(const PendingSave& pending, const std::vector<std::string>& contributions);
  void discard(const base::Path& temporary) const;

  base::FileSystem& files_;
  comm::Communicator& comm_;
  base::Path run_directory_;
  const base::Logger& logger_;
  Keeper keeper_;  ///< rank 0's
  std::function<void()> guard_ = [] {};
};

}  // namespace ddpm::checkpoint
