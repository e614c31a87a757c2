// The folders inside RUN/checkpoints, and what a single rank can tell about one of them. No communication.
//
//   step-00001000              a checkpoint, or a damaged one
//   .tmp-step-00001000-<id>    being written, or left by a run that died
//   .old-step-00001000-<id>    an older checkpoint of that step, while a new one takes its name
//   .removed-step-…-<id>       being removed by retention
//   abandoned-step-…-<id>      newer than the checkpoint that the run was told to resume from; for the user to remove
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/input_file.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace ddpm::checkpoint {

inline constexpr const char* kCheckpointsName = "checkpoints";
inline constexpr const char* kLatestName = "LATEST";
inline constexpr std::string_view kStepPrefix = "step-";
/// The kinds of folders that are not, or no longer, the checkpoint of their step.
inline constexpr std::string_view kBeingWritten = "tmp";
inline constexpr std::string_view kDisplaced = "old";
inline constexpr std::string_view kBeingRemoved = "removed";
inline constexpr std::string_view kSetAside = "abandoned";

/// "step-00001000"
std::string step_folder_name(int64_t step);
/// Returns the step of such a name, or none.
std::optional<int64_t> parse_step_folder(std::string_view name);
/// Returns the step of such a name or of a displaced ".old-step-00001000-<id>", or none.
std::optional<int64_t> step_of_candidate(std::string_view name);
/// `path`, or where nothing lies there and it ends with "step-1000", the folder step-00001000 beside it if there is
/// one: people leave the zeros out.
base::Path meant_step_folder(const base::FileSystem& files, const base::Path& path);
/// ".KIND-step-00001000-<id>" with a fresh random id.
std::string temporary_folder_name(std::string_view kind, int64_t step);
/// "shard-00001-of-00004.safetensors"
std::string shard_name(int rank, int world_size);
/// The safetensors metadata of a shard.
SafetensorsMetadata shard_metadata(int64_t step);

/// Names of the folders that may hold a checkpoint, newest step first. A displaced ".old-…" folder counts if its step
/// has no other one, because a crash came between two renames.
std::vector<std::string> candidate_folders(const base::FileSystem& files, const base::Path& checkpoints);

/// Removes what dead runs left in RUN and RUN/checkpoints, and gives displaced checkpoints their names back. Warns of
/// what cannot be removed.
void sweep_leftovers(base::FileSystem& files, const base::Path& run_directory, const base::Logger& logger);

/// The name of the step folder that RUN/LATEST holds; none where there is no such file. Throws base::OutputError.
std::optional<std::string> read_latest(const base::FileSystem& files, const base::Path& run_directory);

/// Parses the text of a folder's MANIFEST.json, which must be of the step that the folder is named after; throws
/// base::OutputError.
Manifest parse_manifest_of(const base::Path& folder, std::string_view text);
/// Reads and parses a folder's MANIFEST.json. Throws base::OutputError.
Manifest read_manifest(const base::FileSystem& files, const base::Path& folder);
/// Returns the text of a folder's MANIFEST.json. Throws base::OutputError.
std::string read_manifest_text(const base::FileSystem& files, const base::Path& folder);

/// Throws base::OutputError unless the disk holds the file with that SHA-256 (base::sha256_on_disk).
void expect_stored(const base::Path& path, const std::string& sha256);
/// Throws base::OutputError unless the file has the size and the SHA-256 that the manifest says, and holds the slices.
/// Returns what tells whether it changes later.
base::FileStamp verify_file(const base::FileSystem& files, const Manifest& manifest, const ManifestFile& file,
                            const base::Path& folder);
/// Checks cheaply that the manifest is valid and that all files exist with the right size. Returns the manifest; throws
/// base::OutputError.
Manifest verify_sizes(const base::FileSystem& files, const base::Path& folder);
/// Returns the bytes of all shards of the manifest.
int64_t total_bytes(const Manifest& manifest);

}  // namespace ddpm::checkpoint
