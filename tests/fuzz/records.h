// What the targets of files with records do with what was found: read it all, or the ends of much.
#pragma once

#include <algorithm>
#include <variant>
#include <vector>

#include "data/prepare/records.h"
#include "fuzz/fuzz.h"

namespace ddpm::fuzz {

/// The image of a record, which is of bytes.
inline const data::prepare::Image& bytes_of(const data::prepare::Sample& sample) {
  return std::get<data::prepare::Image>(sample.image);
}

/// Reads images of `file`, given `check(index, sample)` each. What was accepted can be read: no error passes.
template <typename Check>
void read_all(const data::prepare::RecordFile& file, const Check& check) noexcept {
  constexpr int64_t kMost = 64;
  const auto source =
      data::prepare::read_records(data::prepare::unpack_records(data::prepare::pack({"fuzz", {file}, {}})));
  require(source->size() == file.count && source->has_labels() == file.labels.has_value(), "a set comes back whole");
  std::vector<data::prepare::Skipped> skipped;
  for (int64_t i = 0; i < file.count; ++i) {
    if (i >= kMost && i < file.count - kMost) continue;
    const auto sample = source->read(i, file.channels, skipped);
    require(sample.has_value() && skipped.empty(), "no record is left out");
    require(sample->label >= 0 && sample->label < std::max<int64_t>(1, source->classes()), "labels are of the classes");
    const auto& image = bytes_of(*sample);
    require(image.height == file.height && image.width == file.width &&
                image.pixels.size() == static_cast<size_t>(file.height * file.width * file.channels),
            "an image has the pixels of its size");
    check(i, *sample);
  }
}

}  // namespace ddpm::fuzz
