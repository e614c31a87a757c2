// The reading half of CheckpointStore.
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "checkpoint/folders.h"
#include "checkpoint/slice_reader.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"

namespace ddpm::checkpoint {
namespace {

/// LATEST decides nothing, but a checkpoint that it names and that is gone is worth a warning.
void check_hint(const base::FileSystem& files, const base::Path& run_directory, const std::vector<std::string>& names,
                const base::Logger& logger) {
  try {
    const std::optional<std::string> hint = read_latest(files, run_directory);
    if (!hint || std::find(names.begin(), names.end(), *hint) != names.end()) return;
    logger.warn("{} names a checkpoint that is not there", (run_directory / kLatestName).string());
  } catch (const base::OutputError& error) {
    logger.warn("ignored: {}", error.what());
  }
}

/// Whether the value is true on any rank. Collective.
bool anywhere(comm::Communicator& comm, bool here) {
  return comm::all_reduce(comm, int64_t{here}, comm::ReduceOp::max) != 0;
}

/// Throws an E with this text on all ranks. Collective.
template <typename E>
[[noreturn]] void throw_everywhere(comm::Communicator& comm, const std::string& text) {
  try {
    comm::agree(comm, [&] { throw base::OutputError("{}", text); });
  } catch (const comm::AgreedError& error) {
    throw E(error);
  }
  throw base::InternalError("the ranks have agreed on no error");
}

/// Throws NewerCheckpointError or UnreadableError when any rank doubts that what was `seen` proves damage. Collective.
void expect_damaged(comm::Communicator& comm, const Doubt& doubt, const base::Path& folder, const std::string& seen) {
  if (anywhere(comm, doubt.newer)) {
    throw_everywhere<NewerCheckpointError>(
        comm, fmt::format("{}, and no older checkpoint is taken in its place; wanted: that version of ddpm, or {} "
                          "moved out of the run to continue without it",
                          seen, folder.string()));
  }
  if (anywhere(comm, doubt.unreadable)) {
    throw_everywhere<UnreadableError>(
        comm, fmt::format("{}: it cannot be read now, but may be whole, so no older one is taken in its place: try "
                          "again, or move {} out of the run to continue without it",
                          seen, folder.string()));
  }
}

/// Does `work`, and notes in `doubt` why it fails on this rank.
template <typename Work>
auto noting(Doubt& doubt, const Work& work) {
  try {
    return work();
  } catch (const base::AccessError&) {
    doubt.unreadable = true;
    throw;
  } catch (const NewerFormatError&) {
    doubt.newer = true;
    throw;
  }
}

}  // namespace

CheckpointStore::CheckpointStore(base::FileSystem& files, comm::Communicator& comm, base::Path run_directory,
                                 const base::Logger& logger)
    : files_(files),
      comm_(comm),
      run_directory_(std::move(run_directory)),
      logger_(logger),
      keeper_(files, checkpoints(), logger) {}

const CheckpointInfo* newest_of(std::span<const CheckpointInfo> found) {
  const auto newest = std::find_if_not(found.rbegin(), found.rend(), [](const auto& info) { return info.damaged(); });
  return newest != found.rend() && newest->problem.empty() ? &*newest : nullptr;
}

std::optional<Checkpoint> CheckpointStore::find() {
  const std::vector<std::string> names = candidates();
  if (comm_.rank() == 0) check_hint(files_, run_directory_, names, logger_);
  bool removed = false;
  for (const std::string& name : names) {
    Doubt doubt;
    try {
      return open(checkpoints() / name, doubt);
    } catch (const comm::AgreedError& error) {  // thrown by all ranks together, so all continue together
      if (error.code() != base::ExitCode::output) throw;
      if (is_gone(checkpoints() / name, doubt)) {
        logger_.info("{} was removed while it was being read", (checkpoints() / name).string());
        removed = true;
        continue;
      }
      expect_damaged(comm_, doubt, checkpoints() / name, error.what());
      logger_.warn("DAMAGED CHECKPOINT passed over: {}", error.what());
    }
  }
  if (removed) return find();  // the run that removes it has written newer ones
  expect_none(names);
  return std::nullopt;
}

void CheckpointStore::expect_none(const std::vector<std::string>& candidates) {
  const base::Path latest = run_directory_ / kLatestName;
  if (candidates.empty() && !comm::ask_root(comm_, [&] { return files_.exists(latest); })) return;
  try {
    comm::do_on_root(comm_, [&] {
      if (!candidates.empty()) {
        throw base::OutputError("{}: no readable checkpoint among {} (newest: {})", checkpoints().string(),
                                candidates.size(), candidates.front());
      }
      throw base::OutputError(
          "{} says that there was a checkpoint, and {} holds none: put them back, or remove {} "
          "to start from the beginning",
          latest.string(), checkpoints().string(), kLatestName);
    });
  } catch (const comm::AgreedError& error) {
    throw NoneReadableError(error);
  }
}

bool CheckpointStore::is_own(const base::Path& folder, int64_t step) const {
  const auto full = [](const base::Path& path) { return (std::filesystem::absolute(path) / "").lexically_normal(); };
  const base::Path plain = base::plain_path(folder);
  return step_of_candidate(plain.filename().string()) == step && full(base::parent_of(plain)) == full(checkpoints());
}

std::vector<std::string> CheckpointStore::candidates() {
  const std::string shared =
      comm::agree_on_root(comm_, [&] { return base::Json(candidate_folders(files_, checkpoints())).dump(); });
  return base::Json::parse(shared).get<std::vector<std::string>>();
}

bool CheckpointStore::is_gone(const base::Path& directory, Doubt& doubt) {
  return comm::ask_root(comm_, [&] {
    try {
      return !files_.exists(directory);
    } catch (const base::OutputError&) {
      doubt.unreadable = true;
      return false;
    }
  });
}

Checkpoint CheckpointStore::open(const base::Path& directory) {
  Doubt doubt;
  return open(directory, doubt);
}

Checkpoint CheckpointStore::open(const base::Path& directory, Doubt& doubt) {
  const std::string text =
      comm::agree_on_root(comm_, [&] { return noting(doubt, [&] { return read_manifest_text(files_, directory); }); });
  Checkpoint checkpoint{directory, {}};
  comm::agree(comm_, [&] { checkpoint.manifest = noting(doubt, [&] { return parse_manifest_of(directory, text); }); });
  comm::agree(comm_, [&] { noting(doubt, [&] { verify_part(checkpoint); }); });
  if (comm_.rank() == 0 && directory == this->directory(checkpoint.manifest.step)) {
    keeper_.verified(checkpoint.manifest);
  }
  return checkpoint;
}

/// This rank's part of the files.
void CheckpointStore::verify_part(Checkpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest;
  for (auto i = static_cast<std::size_t>(comm_.rank()); i < manifest.files.size();
       i += static_cast<std::size_t>(comm_.size())) {
    const ManifestFile& file = manifest.files[i];
    checkpoint.compared.emplace_back(file.name, verify_file(files_, manifest, file, checkpoint.directory));
  }
}

void CheckpointStore::load(const Checkpoint& checkpoint, std::span<const WantedSlice> wanted) {
  comm::agree(comm_, [&] { SliceReader(checkpoint).read(wanted); });
  comm::agree(comm_, [&] { expect_unchanged(checkpoint); });  // once all ranks have read
}

std::vector<CheckpointInfo> CheckpointStore::list(bool deep) {
  std::vector<CheckpointInfo> infos;
  for (const std::string& name : candidates()) {
    if (auto info = inspect(checkpoints() / name, deep)) infos.push_back(std::move(*info));
  }
  std::reverse(infos.begin(), infos.end());
  return infos;
}

std::optional<CheckpointInfo> CheckpointStore::inspect(const base::Path& directory, bool deep) {
  CheckpointInfo info{.directory = directory, .step = step_of_candidate(directory.filename().string()).value_or(0)};
  Doubt doubt;
  try {
    const std::string seen = comm::agree_on_root(comm_, [&] {
      return noting(doubt, [&] {
        const Manifest manifest = verify_sizes(files_, directory);
        // A folder that was removed meanwhile has no time; the next check reports it.
        const int64_t seconds = base::look_at(directory / kManifestName).stamp.seconds;
        return base::Json{manifest.step, manifest.world_size, total_bytes(manifest), seconds}.dump();
      });
    });
    const auto facts = base::Json::parse(seen).get<std::array<int64_t, 4>>();
    info = {directory, facts[0], facts[1], facts[2], facts[3], {}};
    if (deep) (void)open(directory, doubt);
  } catch (const comm::AgreedError& error) {
    if (error.code() != base::ExitCode::output) throw;
    if (is_gone(directory, doubt)) {
      logger_.info("{} was removed while it was being read", directory.string());
      return std::nullopt;
    }
    info.problem = error.what();
    info.unreadable = anywhere(comm_, doubt.unreadable);
    info.newer = anywhere(comm_, doubt.newer);
  }
  return info;
}

}  // namespace ddpm::checkpoint
