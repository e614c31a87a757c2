// The writing half of CheckpointStore.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sha256.h"
#include "checkpoint/folders.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"

namespace ddpm::checkpoint {
namespace {

void check_request(const SaveRequest& request) {
  DDPM_CHECK(request.step >= 0, "step {}", request.step);
  for (const auto& [slice, bytes] : request.slices) {
    validate(slice);
    DDPM_CHECK(std::ssize(bytes) == byte_count(slice), "tensor '{}': {} bytes for a slice of {}", slice.name,
               bytes.size(), byte_count(slice));
  }
}

/// A slice and the name of its entry in the shard: the tensor's, numbered where a rank has several pieces of one.
struct NamedSlice {
  std::string entry;
  const LocalSlice* local;
};

std::vector<NamedSlice> name_entries(const std::vector<LocalSlice>& slices) {
  std::map<std::string, int> pieces;
  std::vector<NamedSlice> named;
  for (const LocalSlice& local : slices) {
    if (local.first.flat.empty()) continue;
    const int piece = pieces[local.first.name]++;
    named.push_back({piece == 0 ? local.first.name : fmt::format("{}#{}", local.first.name, piece), &local});
  }
  return named;
}

/// Returns the box's own shape where the slice is all of it, and one axis otherwise.
std::vector<int64_t> entry_shape(const TensorSlice& slice) {
  if (slice.flat.size() != element_count(slice.box)) return {slice.flat.size()};
  std::vector<int64_t> shape;
  for (const layout::Range range : slice.box) shape.push_back(range.size());
  return shape;
}

/// What one rank adds to the manifest, in the manifest's own notation.
std::string contribution(const PendingSave& pending) {
  Manifest mine;
  mine.files = pending.files;
  mine.tensors = pending.tensors;
  return to_text(mine);
}

/// All contributions as one manifest: files and tensors by name, slices of one tensor together and by file, so that it
/// does not tell which rank wrote what.
Manifest merge(const std::vector<std::string>& contributions) {
  Manifest manifest;
  std::map<std::string, ManifestTensor> tensors;
  for (std::size_t rank = 0; rank < contributions.size(); ++rank) {
    Manifest part = parse_contribution(contributions[rank], fmt::format("rank {}", rank));
    for (ManifestFile& file : part.files) manifest.files.push_back(std::move(file));
    for (ManifestTensor& piece : part.tensors) {
      const auto [at, first] = tensors.try_emplace(piece.name, piece);
      if (first) continue;
      DDPM_CHECK(at->second.dtype == piece.dtype && at->second.shape == piece.shape,
                 "tensor '{}': rank {} gives another dtype or shape than ranks before it", piece.name, rank);
      at->second.slices.push_back(std::move(piece.slices.at(0)));
    }
  }
  std::ranges::sort(manifest.files, {}, &ManifestFile::name);
  for (auto& [name, tensor] : tensors) {
    std::ranges::stable_sort(tensor.slices, {}, &ManifestSlice::file);
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

void expect_readable_size(std::string_view text, const Manifest& manifest, const base::Path& path) {
  if (text.size() <= kMaxManifestBytes) return;
  std::size_t slices = 0;
  for (const ManifestTensor& tensor : manifest.tensors) slices += tensor.slices.size();
  throw base::OutputError(
      "{}: {} slices of {} tensors in {} files take {} bytes, and no more than {} are read; wanted: fewer ranks that "
      "share the state or, below ZeRO stage 3, a larger parallel.bucket_mib",
      path.string(), slices, manifest.tensors.size(), manifest.files.size(), text.size(), kMaxManifestBytes);
}

void write_checked_file(base::FileSystem& files, const base::Path& path, std::string_view text) {
  base::write_new_file(files, path, text);
  expect_stored(path, base::sha256_hex(text));
}

}  // namespace

bool CheckpointStore::may_write() {
  try {
    comm::do_on_root(comm_, guard_);
  } catch (const comm::AgreedError&) {
    return false;
  }
  return true;
}

SaveReport CheckpointStore::save(SaveRequest request) {
  PendingSave pending = begin(std::move(request));
  std::string failure;
  try {
    write_shard(pending);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  return commit(std::move(pending), failure);
}

PendingSave CheckpointStore::begin(SaveRequest request) {
  const double start = base::steady_seconds();
  comm::agree(comm_, [&] { check_request(request); });
  const std::string folder = comm::agree_on_root(comm_, [&] {
    guard_();
    files_.create_directories(checkpoints());
    files_.sync_directory(run_directory_);
    sweep_leftovers(files_, run_directory_, logger_);
    std::string name = temporary_folder_name(kBeingWritten, request.step);
    files_.create_directory(checkpoints() / name);
    return name;
  });
  return {std::move(request), checkpoints() / folder, start};
}

void CheckpointStore::write_shard(PendingSave& pending) const {
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [entry, local] : name_entries(pending.request.slices)) {
    tensors.push_back({entry, local->first.dtype, entry_shape(local->first), local->second});
  }
  const std::string name = shard_name(comm_.rank(), comm_.size());
  const auto file = files_.create_exclusive(pending.directory / name);
  FileDigest digest = write_safetensors(*file, tensors, shard_metadata(pending.request.step));
  file->sync();
  file->close();
  expect_stored(pending.directory / name, digest.sha256);
  pending.files = {{name, digest.size, std::move(digest.sha256)}};
  for (const auto& [entry, local] : name_entries(pending.request.slices)) {
    const TensorSlice& slice = local->first;
    pending.tensors.push_back({slice.name, slice.dtype, slice.global_shape, {{name, entry, slice.box, slice.flat}}});
  }
}

SaveReport CheckpointStore::commit(PendingSave pending, const std::string& failure) {
  try {
    comm::agree(comm_, [&] {
      if (!failure.empty()) throw base::OutputError("checkpoint of step {}: {}", pending.request.step, failure);
    });
    const std::vector<std::string> contributions = comm::gather(comm_, contribution(pending));
    comm::do_on_root(comm_, [&] { commit_on_root(pending, contributions); });
  } catch (const comm::AgreedError&) {
    if (comm_.rank() == 0) discard(pending.directory);
    throw;
  }
  uint64_t bytes = 0;
  for (const ManifestFile& file : pending.files) bytes += file.size;
  return {checkpoints() / step_folder_name(pending.request.step),
          comm::all_reduce(comm_, static_cast<int64_t>(bytes), comm::ReduceOp::sum),
          base::steady_seconds() - pending.start_seconds};
}

void CheckpointStore::commit_on_root(const PendingSave& pending, const std::vector<std::string>& contributions) {
  const SaveRequest& request = pending.request;
  Manifest manifest = merge(contributions);
  manifest.step = request.step;
  manifest.world_size = request.world_size == 0 ? comm_.size() : request.world_size;
  manifest.config_hash = request.config_hash;
  manifest.dataset_hash = request.dataset_hash;
  manifest.state = request.state;
  const std::string text = to_text(manifest);
  const base::Path manifest_path = pending.directory / kManifestName;
  // What could not be read back is not published.
  expect_readable_size(text, manifest, manifest_path);
  const Manifest read_back = parse_manifest(text, manifest_path.string());
  if (request.check) request.check(read_back, manifest_path.string());

  write_checked_file(files_, manifest_path, text);
  files_.sync_directory(pending.directory);
  guard_();
  // A checkpoint of the same step that is already there (the run was resumed from an older one) is displaced: a crash
  // in between leaves it under a name that find() knows.
  const base::Path displaced = checkpoints() / temporary_folder_name(kDisplaced, request.step);
  if (base::publish_over(files_, pending.directory, checkpoints() / step_folder_name(request.step), displaced)) {
    discard(displaced);
  }
  keeper_.verified(manifest);
  guard_();  // on a slow file system the folder may have changed hands meanwhile
  base::write_atomically(files_, run_directory_ / kLatestName, step_folder_name(request.step) + "\n");
  keeper_.apply(request.step, request.retention, guard_);
}

void CheckpointStore::set_aside_newer(int64_t step) {
  comm::do_on_root(comm_, [&] {
    guard_();
    sweep_leftovers(files_, run_directory_, logger_);
    auto names = candidate_folders(files_, checkpoints());
    const auto older =
        std::ranges::find_if(names, [&](const std::string& name) { return step_of_candidate(name).value() <= step; });
    const std::string latest = older == names.end() ? "" : step_folder_name(step_of_candidate(*older).value());
    names.erase(older, names.end());
    // While LATEST names a checkpoint and there is none, no start begins: it goes before the last one does.
    if (latest.empty() && files_.exists(run_directory_ / kLatestName)) {
      files_.remove(run_directory_ / kLatestName);
      files_.sync_directory(run_directory_);
    }
    if (names.empty() && latest.empty()) return;
    // Newest last: a crash in between leaves the newest one in charge, as before.
    std::reverse(names.begin(), names.end());
    for (const std::string& name : names) {
      const int64_t newer = step_of_candidate(name).value();
      const base::Path aside = checkpoints() / temporary_folder_name(kSetAside, newer).substr(1);
      files_.rename(checkpoints() / name, aside);
      logger_.warn("continuing from step {}: the checkpoint of step {} is set aside as {}", step, newer,
                   aside.string());
    }
    files_.sync_directory(checkpoints());
    if (!latest.empty()) base::write_atomically(files_, run_directory_ / kLatestName, latest + "\n");
  });
}

void CheckpointStore::discard(const base::Path& temporary) const {
  try {
    files_.remove_all(temporary);  // nothing happens when it was published before the failure
  } catch (const base::Error& error) {
    logger_.warn("left in place: {}", error.what());
  }
}

}  // namespace ddpm::checkpoint
