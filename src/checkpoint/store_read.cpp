// The reading half of CheckpointStore.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/folders.h"
#include "checkpoint/slice_reader.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"

namespace ddpm::checkpoint {
namespace {

/// LATEST decides nothing, but a checkpoint that it names and that is gone is worth a warning.
void check_hint(const base::FileSystem& files, const base::Path& latest, const std::vector<std::string>& names,
                const base::Logger& logger) {
  constexpr uint64_t kMaxLatestBytes = 4096;
  try {
    if (!files.exists(latest)) return;
    std::string hint = files.read(latest, kMaxLatestBytes);
    if (hint.ends_with('\n')) hint.pop_back();
    if (std::find(names.begin(), names.end(), hint) != names.end()) return;
    logger.warn("{} names a checkpoint that is not there", latest.string());
  } catch (const base::OutputError& error) {
    logger.warn("ignored: {}", error.what());
  }
}

int64_t seconds_since_1970(std::filesystem::file_time_type time) {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::file_clock::to_sys(time)).time_since_epoch().count();
}

}  // namespace

CheckpointStore::CheckpointStore(base::FileSystem& files, comm::Communicator& comm, base::Path run_directory,
                                 const base::Logger& logger)
    : files_(files), comm_(comm), run_directory_(std::move(run_directory)), logger_(logger) {}

std::optional<Checkpoint> CheckpointStore::find() {
  const std::vector<std::string> names = candidates();
  if (comm_.rank() == 0) check_hint(files_, run_directory_ / kLatestName, names, logger_);
  for (const std::string& name : names) {
    try {
      return open(checkpoints() / name);
    } catch (const comm::AgreedError& error) {  // thrown by all ranks together, so all go on together
      if (error.code() != base::ExitCode::output) throw;
      logger_.warn("DAMAGED CHECKPOINT passed over: {}", error.what());
    }
  }
  comm::agree_on_root(comm_, [&] {
    if (!names.empty()) {
      throw base::OutputError("{}: none of its {} checkpoints is readable (newest: {})", checkpoints().string(),
                              names.size(), names.front());
    }
    if (const base::Path latest = run_directory_ / kLatestName; files_.exists(latest)) {
      throw base::OutputError(
          "{} says that there was a checkpoint, and {} holds none: put them back, or remove {} to begin anew",
          latest.string(), checkpoints().string(), kLatestName);
    }
    return std::string();
  });
  return std::nullopt;
}

std::vector<std::string> CheckpointStore::candidates() {
  const std::string shared =
      comm::agree_on_root(comm_, [&] { return base::Json(candidate_folders(files_, checkpoints())).dump(); });
  return base::Json::parse(shared).get<std::vector<std::string>>();
}

Checkpoint CheckpointStore::open(const base::Path& directory) {
  const std::string text = comm::agree_on_root(comm_, [&] { return read_manifest_text(files_, directory); });
  Checkpoint checkpoint{directory, {}};
  comm::agree(comm_, [&] {
    checkpoint.manifest = parse_manifest(text, (directory / kManifestName).string());
    const auto step = step_of_candidate(directory.filename().string());
    if (step && *step != checkpoint.manifest.step) {
      throw base::OutputError("{}: its manifest is of step {}", directory.string(), checkpoint.manifest.step);
    }
  });
  comm::agree(comm_, [&] {
    const Manifest& manifest = checkpoint.manifest;
    for (auto i = static_cast<std::size_t>(comm_.rank()); i < manifest.files.size();
         i += static_cast<std::size_t>(comm_.size())) {
      verify_file(manifest, manifest.files[i], directory);
    }
  });
  return checkpoint;
}

void CheckpointStore::load(const Checkpoint& checkpoint, std::span<const WantedSlice> wanted) {
  comm::agree(comm_, [&] { SliceReader(checkpoint).read(wanted); });
}

std::vector<CheckpointInfo> CheckpointStore::list(bool deep) {
  std::vector<CheckpointInfo> infos;
  for (const std::string& name : candidates()) infos.push_back(inspect(checkpoints() / name, deep));
  std::reverse(infos.begin(), infos.end());
  return infos;
}

CheckpointInfo CheckpointStore::inspect(const base::Path& directory, bool deep) {
  CheckpointInfo info{.directory = directory, .step = step_of_candidate(directory.filename().string()).value_or(0)};
  try {
    const std::string seen = comm::agree_on_root(comm_, [&] {
      const Manifest manifest = verify_sizes(files_, directory);
      const int64_t written = seconds_since_1970(std::filesystem::last_write_time(directory / kManifestName));
      return base::Json{manifest.step, manifest.world_size, total_bytes(manifest), written}.dump();
    });
    const auto facts = base::Json::parse(seen).get<std::array<int64_t, 4>>();
    info = {directory, facts[0], facts[1], facts[2], facts[3], {}};
    if (deep) (void)open(directory);
  } catch (const comm::AgreedError& error) {
    if (error.code() != base::ExitCode::output) throw;
    info.problem = error.what();
  }
  return info;
}

}  // namespace ddpm::checkpoint
