#include "checkpoint/slice_reader.h"

#include <optional>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/slice.h"

namespace ddpm::checkpoint {
namespace {

constexpr std::size_t kMaxOpenFiles = 64;  // far below the usual limit of 1024 per process

/// A stored slice that holds something of a wanted one.
struct SlicePart {
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
std::map<std::string, std::vector<SlicePart>> plan_reads(const Checkpoint& checkpoint,
                                                         std::span<const WantedSlice> wanted) {
  std::map<std::string, std::vector<SlicePart>> parts;
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

/// Returns the range of the tensor's row-major elements of a slice whose box has all of every axis but the first.
std::optional<layout::Range> range_in_tensor(const TensorSlice& slice) {
  if (slice.box.empty()) return slice.flat;
  int64_t row = 1;
  for (std::size_t axis = 1; axis < slice.box.size(); ++axis) {
    if (slice.box[axis] != layout::Range{0, slice.global_shape[axis]}) return std::nullopt;
    row *= slice.global_shape[axis];
  }
  const int64_t skipped = slice.box[0].begin * row;
  return layout::Range{skipped + slice.flat.begin, skipped + slice.flat.end};
}

/// Reads one part; returns the number of elements.
int64_t read_part(const SafetensorsFile& file, const SlicePart& part) {
  const TensorSlice stored = part.tensor->slice(part.slice);
  const auto& [wanted, bytes] = *part.wanted;
  const SafetensorsEntry* entry = file.header().find(part.tensor->slices[part.slice].entry);
  DDPM_CHECK(entry != nullptr && static_cast<int64_t>(entry->size()) == byte_count(stored),
             "{}: tensor '{}' was not verified", file.path().string(), stored.name);
  const std::optional<layout::Range> from = stored.box == wanted.box ? stored.flat : range_in_tensor(stored);
  const std::optional<layout::Range> to = stored.box == wanted.box ? wanted.flat : range_in_tensor(wanted);
  if (!from || !to) {
    std::vector<std::byte> whole(entry->size());
    file.read(*entry, whole);
    return copy_intersection(stored, whole, wanted, bytes);
  }
  // Ranges of one box or of the tensor share a single run of bytes, which goes where it belongs without a copy.
  const layout::Range run = layout::intersect(*from, *to);
  const auto size = static_cast<int64_t>(base::size_of(stored.dtype));
  file.read(*entry,
            bytes.subspan(static_cast<std::size_t>((run.begin - to->begin) * size),
                          static_cast<std::size_t>(run.size() * size)),
            static_cast<uint64_t>((run.begin - from->begin) * size));
  return run.size();
}

}  // namespace

void expect_tensors(const Checkpoint& checkpoint, std::span<const TensorSlice> slices) {
  for (const TensorSlice& slice : slices) static_cast<void>(stored_tensor(checkpoint, slice));
}

void expect_unchanged(const Checkpoint& checkpoint) {
  for (const auto& [name, stamp] : checkpoint.compared) {
    const base::Path path = checkpoint.directory / name;
    const base::FileFacts now = base::look_at(path);
    if (now.kind == base::FileKind::absent || now.stamp == stamp) continue;
    throw base::OutputError("{}: has changed since it was compared with its checksum", path.string());
  }
}

void SliceReader::read(std::span<const WantedSlice> wanted) {
  int64_t missing = 0;
  for (const auto& [slice, bytes] : wanted) missing += slice.flat.size();
  for (const auto& [name, parts] : plan_reads(checkpoint_, wanted)) {
    const SafetensorsFile& stored = file(name);
    for (const SlicePart& part : parts) missing -= read_part(stored, part);
  }
  DDPM_CHECK(missing == 0, "{} elements of {} were not read", missing, checkpoint_.directory.string());
}

const SafetensorsFile& SliceReader::file(const std::string& name) {
  const auto found = open_.find(name);
  if (found != open_.end()) return found->second;
  if (open_.size() == kMaxOpenFiles) open_.clear();
  return open_.emplace(name, SafetensorsFile(checkpoint_.directory / name)).first->second;
}

}  // namespace ddpm::checkpoint
