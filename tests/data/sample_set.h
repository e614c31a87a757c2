// Datasets for tests, whose every byte follows from the index of its image.
#pragma once

#include <cstring>
#include <vector>

#include "base/file_system.h"
#include "data/loader.h"
#include "data/writer.h"

namespace ddpm::data {

inline constexpr int64_t kSampleClasses = 3;

/// Image `index`: values that differ between images, places and channels; for float32 also negative and fractional.
inline std::vector<std::byte> sample_image(const ImageFormat& format, int64_t index) {
  std::vector<std::byte> image(format.bytes());
  for (int64_t e = 0; e < format.elements(); ++e) {
    const auto value = static_cast<uint8_t>(index * 37 + e * 11 + (e / 7) * 5);
    const float real = (static_cast<float>(value) - 100.0F) / 8.0F;
    auto* const at = image.data() + static_cast<std::size_t>(e) * base::size_of(format.dtype);
    if (format.dtype == base::DType::u8) {
      std::memcpy(at, &value, sizeof(value));
    } else {
      std::memcpy(at, &real, sizeof(real));
    }
  }
  return image;
}

inline int64_t sample_label(int64_t index) { return (index * index + index / 2) % kSampleClasses; }

/// The labels of a batch of a set that has them.
inline std::vector<int64_t> labels_of(const MicroBatch& batch) {
  std::vector<int64_t> labels(batch.indices.size());
  std::memcpy(labels.data(), batch.values.at(1).data(), batch.values.at(1).size());
  return labels;
}

/// A dataset folder whose shards hold `counts` images.
inline DatasetInfo write_sample_set(const Path& folder, const ImageFormat& format, bool has_labels,
                                    const std::vector<int64_t>& counts) {
  const auto files = base::posix_file_system();
  files->create_directories(folder);
  std::vector<ShardResult> shards;
  const std::vector<std::string> columns(has_labels ? 1 : 0, kLabelsPath);
  int64_t index = 0;
  for (const int64_t count : counts) {
    const Path path = folder / shard_file_name(std::ssize(shards), std::ssize(counts));
    ShardWriter writer(*files, path, format, columns, count);
    for (int64_t i = 0; i < count; ++i, ++index) {
      const int64_t label = sample_label(index);
      writer.append(sample_image(format, index), {columns.size(), std::span(&label, 1)});
    }
    shards.push_back(writer.finish());
  }
  const std::vector<std::string> classes = {"cat", "dog", "newt"};
  DatasetInfo info = assemble(folder.string(), image_fields(format, Normalization::of(format.dtype), has_labels),
                              has_labels ? classes : std::vector<std::string>{}, shards);
  write_dataset_info(*files, folder, info);
  return info;
}

}  // namespace ddpm::data
