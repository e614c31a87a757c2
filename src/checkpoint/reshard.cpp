#include "checkpoint/reshard.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <string>

#include "base/check.h"
#include "checkpoint/folders.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice_reader.h"
#include "comm/collectives.h"
#include "layout/range.h"

namespace ddpm::checkpoint {
namespace {

int64_t byte_count(const ManifestTensor& tensor) {
  return element_count(tensor.shape, tensor.name) * static_cast<int64_t>(base::size_of(tensor.dtype));
}

/// Elements of a tensor that begins at byte `begin` and of which the bytes before byte `end` are wanted. A border
/// inside an element belongs to the shard before it.
int64_t elements_before(const ManifestTensor& tensor, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(base::size_of(tensor.dtype));
  return std::clamp((end - begin + size - 1) / size, int64_t{0}, byte_count(tensor) / size);
}

void write_shard(const Checkpoint& checkpoint, SliceReader& reader, int64_t shards, int64_t index,
                 base::FileSystem& files, PendingSave& pending) {
  const std::vector<TensorSlice> slices = shard_slices(checkpoint.manifest, shards, index);
  std::vector<SafetensorsTensor> tensors;
  for (const TensorSlice& slice : slices) {
    const bool whole = slice.flat.size() == element_count(slice.box);
    tensors.push_back({slice.name, slice.dtype, whole ? slice.global_shape : std::vector{slice.flat.size()}, {}});
  }
  const auto source = [&](std::size_t tensor, uint64_t first, std::span<std::byte> out) {
    TensorSlice piece = slices[tensor];
    const std::size_t size = base::size_of(piece.dtype);
    const int64_t begin = piece.flat.begin + static_cast<int64_t>(first / size);
    piece.flat = {begin, begin + static_cast<int64_t>(out.size() / size)};
    const std::vector<WantedSlice> wanted = {{std::move(piece), out}};
    reader.read(wanted);
  };
  const std::string name = shard_name(static_cast<int>(index), static_cast<int>(shards));
  const auto file = files.create_exclusive(pending.directory / name);
  FileDigest digest = write_safetensors(*file, tensors, source, shard_metadata(checkpoint.manifest.step));
  file->sync();
  file->close();
  expect_stored(pending.directory / name, digest.sha256);
  pending.files.push_back({name, digest.size, std::move(digest.sha256)});
  for (const TensorSlice& slice : slices) {
    pending.tensors.push_back(
        {slice.name, slice.dtype, slice.global_shape, {{name, slice.name, slice.box, slice.flat}}});
  }
}

}  // namespace

std::vector<TensorSlice> shard_slices(const Manifest& manifest, int64_t count, int64_t index) {
  int64_t total = 0;
  for (const ManifestTensor& tensor : manifest.tensors) total += byte_count(tensor);
  const layout::Range part = layout::even_part(total, count, index);
  std::vector<TensorSlice> slices;
  int64_t begin = 0;
  for (const ManifestTensor& tensor : manifest.tensors) {
    const layout::Range flat = {elements_before(tensor, begin, part.begin), elements_before(tensor, begin, part.end)};
    if (!flat.empty()) slices.push_back(flat_slice(tensor.name, tensor.dtype, tensor.shape, flat));
    begin += byte_count(tensor);
  }
  return slices;
}

SaveReport reshard(const Checkpoint& checkpoint, int64_t shards, base::FileSystem& files, comm::Communicator& comm,
                   CheckpointStore& target) {
  DDPM_CHECK(shards >= 1 && shards <= kMaxShards, "{} shards", shards);
  const Manifest& manifest = checkpoint.manifest;
  PendingSave pending = target.begin({.step = manifest.step,
                                      .state = manifest.state,
                                      .config_hash = manifest.config_hash,
                                      .dataset_hash = manifest.dataset_hash,
                                      .world_size = shards});
  std::string failure;
  const auto attempt = [&failure](const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& error) {
      if (failure.empty()) failure = error.what();
    }
  };
  attempt([&] {
    SliceReader reader(checkpoint);
    for (int64_t index = comm.rank(); index < shards; index += comm.size()) {
      write_shard(checkpoint, reader, shards, index, files, pending);
    }
  });
  comm::barrier(comm);  // all ranks have read
  attempt([&] { expect_unchanged(checkpoint); });
  return target.commit(std::move(pending), failure);
}

}  // namespace ddpm::checkpoint
