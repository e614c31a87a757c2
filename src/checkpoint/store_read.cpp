// The reading half of CheckpointStore.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/folders.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"

namespace ddpm::checkpoint {
namespace {

/// A stored slice that holds something of a wanted one.
struct Part {
  const ManifestTensor* tensor;
  std::size_t slice;
  const WantedSlice* wanted;
};

const ManifestTensor& stored_tensor(const Checkpoint& checkpoint, const TensorSlice& wanted) {
  const ManifestTensor* tensor = checkpoint.manifest.find(wanted.name);
  if (tensor == nullptr) {
    throw base::OutputError("{}: holds no tensor '{}'", checkpoint.directory.string(), wanted.name);
  }
  if (tensor->dtype != wanted.dtype || tensor->shape != wanted.global_shape) {
    throw base::OutputError("{}: tensor '{}' is {} [{}], wanted {} [{}]", checkpoint.directory.string(), wanted.name,
                            base::safetensors_name(tensor->dtype), fmt::join(tensor->shape, ", "),
                            base::safetensors_name(wanted.dtype), fmt::join(wanted.global_shape, ", "));
  }
  return *tensor;
}

/// What is to be read, by file, so that each file is opened once.
std::map<std::string, std::vector<Part>> plan_reads(const Checkpoint& checkpoint, std::span<const WantedSlice> wanted) {
  std::map<std::string, std::vector<Part>> parts;
  for (const WantedSlice& one : wanted) {
    const auto& [slice, bytes] = one;
    validate(slice);
    DDPM_CHECK(std::ssize(bytes) == byte_count(slice), "tensor '{}': {} bytes for a slice of {}", slice.name,
               bytes.size(), byte_count(slice));
    const ManifestTensor& tensor = stored_tensor(checkpoint, slice);
    for (std::size_t i = 0; i < tensor.slices.size(); ++i) {
      if (overlap(tensor.slice(i), slice)) parts[tensor.slices[i].file].push_back({&tensor, i, &one});
    }
  }
  return parts;
}

/// Reads one part; returns the number of elements.
int64_t read_part(const SafetensorsFile& file, const Part& part) {
  const TensorSlice stored = part.tensor->slice(part.slice);
  const auto& [wanted, bytes] = *part.wanted;
  const SafetensorsEntry* entry = file.header().find(part.tensor->slices[part.slice].entry);
  DDPM_CHECK(entry != nullptr && static_cast<int64_t>(entry->size()) == byte_count(stored),
             "{}: tensor '{}' was not verified", file.path().string(), stored.name);
  if (stored.box != wanted.box) {
    std::vector<std::byte> whole(entry->size());
    file.read(*entry, whole);
    return copy_intersection(stored, whole, wanted, bytes);
  }
  // Ranges of one box share a single run of bytes, which goes where it belongs without a copy.
  const layout::Range run = layout::intersect(stored.flat, wanted.flat);
  const auto size = static_cast<int64_t>(base::size_of(stored.dtype));
  file.read(*entry,
            bytes.subspan(static_cast<std::size_t>((run.begin - wanted.flat.begin) * size),
                          static_cast<std::size_t>(run.size() * size)),
            static_cast<uint64_t>((run.begin - stored.flat.begin) * size));
  return run.size();
}

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

}  // namespace

CheckpointStore::CheckpointStore(base::FileSystem& files, comm::Communicator& comm, base::Path run_directory,
                                 const base::Logger& logger)
    : files_(files), comm_(comm), run_directory_(std::move(run_directory)), logger_(logger) {}

std::optional<Checkpoint> CheckpointStore::find() {
  const std::vector<std::string> names = candidates();
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
    return std::string();
  });
  return std::nullopt;
}

std::vector<std::string> CheckpointStore::candidates() {
  const std::string shared = comm::agree_on_root(comm_, [&] {
    const std::vector<std::string> names = candidate_folders(files_, checkpoints());
    check_hint(files_, run_directory_ / kLatestName, names, logger_);
    return base::Json(names).dump();
  });
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
  comm::agree(comm_, [&] {
    int64_t missing = 0;
    for (const auto& [slice, bytes] : wanted) missing += slice.flat.size();
    for (const auto& [name, parts] : plan_reads(checkpoint, wanted)) {
      const SafetensorsFile file(checkpoint.directory / name);
      for (const Part& part : parts) missing -= read_part(file, part);
    }
    DDPM_CHECK(missing == 0, "{} elements of {} were not read", missing, checkpoint.directory.string());
  });
}

std::vector<CheckpointInfo> CheckpointStore::list(bool deep) {
  std::vector<CheckpointInfo> infos;
  for (const std::string& name : candidates()) infos.push_back(examine(checkpoints() / name, deep));
  std::reverse(infos.begin(), infos.end());
  return infos;
}

CheckpointInfo CheckpointStore::examine(const base::Path& directory, bool deep) {
  CheckpointInfo info{directory, step_of_candidate(directory.filename().string()).value_or(0), 0, {}};
  try {
    info.bytes =
        std::stoll(comm::agree_on_root(comm_, [&] { return std::to_string(verify_sizes(files_, directory)); }));
    if (deep) info.step = open(directory).manifest.step;
  } catch (const comm::AgreedError& error) {
    if (error.code() != base::ExitCode::output) throw;
    info.problem = error.what();
  }
  return info;
}

}  // namespace ddpm::checkpoint
