#include "checkpoint/folders.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <system_error>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/sha256.h"
#include "checkpoint/lock_lease.h"
#include "checkpoint/run_files.h"

namespace ddpm::checkpoint {
namespace {

/// The step folder name inside ".KIND-step-00001000-<id>", or "" for any other name.
std::string step_part(std::string_view name, std::string_view kind) {
  const std::string prefix = fmt::format(".{}-", kind);
  const std::size_t id = name.rfind('-');
  if (!name.starts_with(prefix) || id < prefix.size() + kStepPrefix.size()) return {};
  const std::string_view step = name.substr(prefix.size(), id - prefix.size());
  return parse_step_folder(step) ? std::string(step) : std::string();
}

void remove_or_warn(base::FileSystem& files, const base::Path& folder, const base::Logger& logger) {
  try {
    files.remove_all(folder);
  } catch (const base::OutputError& error) {
    logger.warn("left in place: {}", error.what());
  }
}

/// Whether `name` is the temporary form of a file that a run writes into its folder (base::write_atomically). Other
/// temporary names do not count, since `ddpm sample` may be writing its output beside them now.
bool is_unfinished_file(std::string_view name) {
  const auto names = {kLatestName, kLockName, kConfigName, kMetricsName, kTableName, kStartsName, kUsageName};
  return std::any_of(names.begin(), names.end(),
                     [&](const char* own) { return name.starts_with(fmt::format(".{}.tmp-", own)); });
}

/// Whether `name` is a lock that was moved aside. While there is no lock, another start may be moving one.
bool is_dead_lock(const base::FileSystem& files, const base::Path& run_directory, std::string_view name) {
  return name.starts_with(fmt::format(".{}.stale-", kLockName)) && files.exists(run_directory / kLockName);
}

void expect_size(const base::FileSystem& files, const ManifestFile& file, const base::Path& folder) {
  const base::Path path = folder / file.name;
  const uint64_t size = files.file_size(path);
  if (size == file.size) return;
  throw base::OutputError("{}: has {} bytes, its manifest says {}", path.string(), size, file.size);
}

}  // namespace

std::string step_folder_name(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<int64_t> parse_step_folder(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  int64_t step = -1;
  const std::string_view digits = name.substr(kStepPrefix.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (step < 0 || step_folder_name(step) != name) return std::nullopt;
  return step;
}

std::optional<int64_t> step_of_candidate(std::string_view name) {
  const std::string displaced = step_part(name, kDisplaced);
  return parse_step_folder(displaced.empty() ? name : displaced);
}

base::Path meant_step_folder(const base::FileSystem& files, const base::Path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kStepPrefix) || files.exists(path)) return path;
  const auto step = base::parse_number<int64_t>(std::string_view(name).substr(kStepPrefix.size()));
  if (!step || *step < 0) return path;
  base::Path whole = path.parent_path() / step_folder_name(*step);
  return files.exists(whole) ? whole : path;
}

std::string temporary_folder_name(std::string_view kind, int64_t step) {
  std::random_device entropy;
  return fmt::format(".{}-{}-{:08x}{:08x}", kind, step_folder_name(step), entropy(), entropy());
}

std::string shard_name(int rank, int world_size) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", rank, world_size);
}

SafetensorsMetadata shard_metadata(int64_t step) { return {{"format", "pt"}, {"step", std::to_string(step)}}; }

std::vector<std::string> candidate_folders(const base::FileSystem& files, const base::Path& checkpoints) {
  std::vector<std::pair<int64_t, std::string>> found;
  if (!files.exists(checkpoints)) return {};
  const std::vector<std::string> names = files.list(checkpoints);
  for (const std::string& name : names) {
    const auto step = step_of_candidate(name);
    if (!step) continue;
    const std::string proper = step_folder_name(*step);
    if (name == proper || std::find(names.begin(), names.end(), proper) == names.end()) found.emplace_back(*step, name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> candidates;
  for (auto& [step, name] : found) candidates.push_back(std::move(name));
  return candidates;
}

void sweep_leftovers(base::FileSystem& files, const base::Path& run_directory, const base::Logger& logger) {
  for (const std::string& name : files.list(run_directory)) {
    if (!is_unfinished_file(name) && !is_dead_lock(files, run_directory, name)) continue;
    remove_or_warn(files, run_directory / name, logger);
  }
  const base::Path checkpoints = run_directory / kCheckpointsName;
  if (!files.exists(checkpoints)) return;
  for (const std::string& name : files.list(checkpoints)) {
    const std::string displaced = step_part(name, kDisplaced);
    if (!displaced.empty() && !files.exists(checkpoints / displaced)) {
      files.rename(checkpoints / name, checkpoints / displaced);
      files.sync_directory(checkpoints);
    } else if (!displaced.empty() || !step_part(name, kBeingWritten).empty() ||
               !step_part(name, kBeingRemoved).empty()) {
      remove_or_warn(files, checkpoints / name, logger);
    }
  }
}

std::optional<std::string> read_latest(const base::FileSystem& files, const base::Path& run_directory) {
  constexpr uint64_t kMaxLatestBytes = 4096;
  const base::Path latest = run_directory / kLatestName;
  if (!files.exists(latest)) return std::nullopt;
  std::string name = files.read(latest, kMaxLatestBytes);
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

std::string read_manifest_text(const base::FileSystem& files, const base::Path& folder) {
  return files.read(folder / kManifestName, kMaxManifestBytes);
}

Manifest parse_manifest_of(const base::Path& folder, std::string_view text) {
  Manifest manifest = parse_manifest(text, (folder / kManifestName).string());
  const auto step = step_of_candidate(folder.filename().string());
  if (step && *step != manifest.step) {
    throw base::OutputError("{}: its manifest is of step {}", folder.string(), manifest.step);
  }
  return manifest;
}

Manifest read_manifest(const base::FileSystem& files, const base::Path& folder) {
  return parse_manifest_of(folder, read_manifest_text(files, folder));
}

void expect_stored(const base::Path& path, const std::string& sha256) {
  if (const std::string stored = base::sha256_on_disk(path); stored != sha256) {
    throw base::OutputError("{}: read back with SHA-256 {}, written with {}: the disk did not store what was written",
                            path.string(), stored, sha256);
  }
}

base::FileStamp verify_file(const base::FileSystem& files, const Manifest& manifest, const ManifestFile& file,
                            const base::Path& folder) {
  const base::Path path = folder / file.name;
  expect_size(files, file, folder);
  const base::FileStamp stamp = base::look_at(path).stamp;
  if (const std::string sha256 = base::sha256_file(path); sha256 != file.sha256) {
    throw base::OutputError("{}: damaged: SHA-256 {}, its manifest says {}", path.string(), sha256, file.sha256);
  }
  const SafetensorsFile shard(path);
  for (const ManifestTensor& tensor : manifest.tensors) {
    for (const ManifestSlice& slice : tensor.slices) {
      if (slice.file != file.name) continue;
      const SafetensorsEntry* entry = shard.header().find(slice.entry);
      const auto bytes = static_cast<uint64_t>(slice.flat.size()) * base::size_of(tensor.dtype);
      if (entry == nullptr || entry->dtype != tensor.dtype || entry->size() != bytes) {
        throw base::OutputError("{}: holds no '{}' of {} with {} bytes, as its manifest says", path.string(),
                                slice.entry, base::safetensors_name(tensor.dtype), bytes);
      }
    }
  }
  return stamp;
}

Manifest verify_sizes(const base::FileSystem& files, const base::Path& folder) {
  Manifest manifest = read_manifest(files, folder);
  for (const ManifestFile& file : manifest.files) expect_size(files, file, folder);
  return manifest;
}

int64_t total_bytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.size;
  return static_cast<int64_t>(bytes);
}

}  // namespace ddpm::checkpoint
