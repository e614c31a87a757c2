#include "data/prepare/records.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "data/prepare/packed_fields.h"

namespace ddpm::data::prepare {
namespace {

void add(FieldWriter& fields, const Column& column) {
  fields.add(column.path.string());
  for (const int64_t number : {column.stamp.size, column.stamp.seconds, column.stamp.nanoseconds,
                               static_cast<int64_t>(column.first), static_cast<int64_t>(column.stride)}) {
    fields.add(number);
  }
}

Column next_column(FieldReader& fields) {
  Column column;
  column.path = fields.text();
  column.stamp.size = fields.number();
  column.stamp.seconds = fields.number();
  column.stamp.nanoseconds = fields.number();
  column.first = static_cast<uint64_t>(fields.number());
  column.stride = static_cast<uint64_t>(fields.number());
  return column;
}

RecordFile next_file(FieldReader& fields) {
  RecordFile file;
  file.count = fields.number();
  file.height = static_cast<int>(fields.number());
  file.width = static_cast<int>(fields.number());
  file.channels = static_cast<int>(fields.number());
  file.planar = fields.number() != 0;
  file.classes = fields.number();
  file.images = next_column(fields);
  if (fields.number() != 0) file.labels = next_column(fields);
  return file;
}

/// [channels, pixels] to [pixels, channels].
void interleave(std::span<const uint8_t> planes, Image& image) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t pixels = planes.size() / channels;
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < channels; ++c) image.pixels[i * channels + c] = planes[c * pixels + i];
  }
}

/// The file that was read last stays open.
class OpenFile {
 public:
  /// The file of `column`, which must be as it was looked at.
  PackedFile& of(const Column& column) {
    if (!file_ || file_->path() != column.path) {
      PackedFile file(column.path);
      if (file.stamp() != column.stamp) {
        throw base::DatasetError("{}: changed while the dataset was made", column.path.string());
      }
      file_ = std::move(file);
    }
    return *file_;
  }

 private:
  std::optional<PackedFile> file_;
};

class RecordSource final : public ImageSource {
 public:
  explicit RecordSource(RecordSet set) : set_(std::move(set)) {
    DDPM_CHECK(!set_.files.empty(), "{} source without files", set_.format);
    for (const RecordFile& file : set_.files) {
      size_ += file.count;
      ends_.push_back(size_);
      classes_ = std::max(classes_, file.classes);
    }
  }

  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] base::DType dtype() const override { return base::DType::u8; }
  [[nodiscard]] bool has_labels() const override { return set_.files.front().labels.has_value(); }
  [[nodiscard]] int64_t classes() const override { return classes_; }
  [[nodiscard]] std::vector<std::string> class_names() const override { return set_.class_names; }
  [[nodiscard]] std::string name() const override {
    const std::string first = set_.files.front().images.path.string();
    return set_.files.size() == 1 ? first : fmt::format("{} and {} more", first, set_.files.size() - 1);
  }
  [[nodiscard]] std::string description() const override {
    const auto shape = [](const RecordFile& file) {
      return fmt::format("{} x {} x {}", file.height, file.width, file.channels);
    };
    const std::string first = shape(set_.files.front());
    const bool equal =
        std::all_of(set_.files.begin(), set_.files.end(), [&](const RecordFile& file) { return shape(file) == first; });
    return fmt::format("{} of {} ({}, {})", base::counted(size_, "image"), equal ? first : "several sizes", set_.format,
                       has_labels() ? base::counted(classes_, "class") : "without labels");
  }
  [[nodiscard]] std::string name_of(int64_t /*index*/) const override { return {}; }
  [[nodiscard]] std::vector<Skipped> left_out() const override { return {}; }
  [[nodiscard]] EndingCounts other_files() const override { return {}; }

  [[nodiscard]] std::vector<base::FileStamp> look_at(const layout::Range& candidates) const override {
    std::vector<base::FileStamp> stamps;
    for (int64_t i = candidates.begin; i < candidates.end; ++i) {
      stamps.push_back({.size = static_cast<int64_t>(file_of(i).images.stride)});
    }
    return stamps;
  }
  void identify(std::span<const int64_t> /*candidates*/, std::span<const base::FileStamp> /*stamps*/,
                base::Sha256& digest) const override {
    digest.update(pack(set_));
  }

  std::optional<Sample> read(int64_t index, int channels, std::vector<Skipped>& /*skipped*/) override {
    const RecordFile& file = file_of(index);
    const auto record =
        static_cast<uint64_t>(index - ends_[static_cast<std::size_t>(&file - set_.files.data())] + file.count);
    Sample sample;
    // Where both are in one file, the label is before the pixels.
    if (file.labels) sample.label = read_label(file, record);
    sample.image = with_channels(read_image(file, record), channels);
    return sample;
  }

 private:
  [[nodiscard]] const RecordFile& file_of(int64_t index) const {
    DDPM_CHECK(index >= 0 && index < size_, "image {} of {}", index, size_);
    return set_.files[static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin())];
  }
  int64_t read_label(const RecordFile& file, uint64_t record) {
    const Column& column = *file.labels;
    uint8_t label = 0;
    OpenFile& open = column.path == file.images.path ? images_ : labels_;
    open.of(column).read(column.first + record * column.stride, {&label, 1});
    if (label < file.classes) return label;
    throw base::DatasetError("{}: changed while the dataset was made", column.path.string());
  }
  Image read_image(const RecordFile& file, uint64_t record) {
    Image image(file.width, file.height, file.channels);
    PackedFile& pixels = images_.of(file.images);
    const uint64_t begin = file.images.first + record * file.images.stride;
    if (!file.planar) {
      pixels.read(begin, image.pixels);
    } else {
      planes_.resize(image.pixels.size());
      pixels.read(begin, planes_);
      interleave(planes_, image);
    }
    return image;
  }

  RecordSet set_;
  std::vector<int64_t> ends_;  // for each file, the number of candidates up to its end
  int64_t size_ = 0;
  int64_t classes_ = 0;
  OpenFile images_;
  OpenFile labels_;
  std::vector<uint8_t> planes_;
};

}  // namespace

int64_t largest_label(PackedFile& file, const Column& labels, int64_t count, int64_t most, const std::string& format) {
  // Labels by the thousand, where they lie side by side.
  constexpr int64_t kMost = 1 << 14;
  const int64_t block = labels.stride == 1 ? kMost : 1;
  std::vector<uint8_t> values(static_cast<std::size_t>(block));
  int64_t largest = 0;
  for (int64_t first = 0; first < count; first += block) {
    const auto part = std::span(values).first(static_cast<std::size_t>(std::min(block, count - first)));
    file.read(labels.first + static_cast<uint64_t>(first) * labels.stride, part);
    const auto found = std::max_element(part.begin(), part.end());
    if (*found > most) {
      throw base::DatasetError("{}: image {} has label {}, wanted 0 to {} ({})", file.path().string(),
                               first + (found - part.begin()), *found, most, format);
    }
    largest = std::max<int64_t>(largest, *found);
  }
  return largest;
}

std::string pack(const RecordSet& set) {
  FieldWriter fields;
  fields.add(set.format);
  fields.add(std::ssize(set.files));
  for (const RecordFile& file : set.files) {
    for (const int64_t number : {file.count, int64_t{file.height}, int64_t{file.width}, int64_t{file.channels},
                                 int64_t{file.planar}, file.classes}) {
      fields.add(number);
    }
    add(fields, file.images);
    fields.add(file.labels.has_value() ? 1 : 0);
    if (file.labels) add(fields, *file.labels);
  }
  for (const std::string& name : set.class_names) fields.add(name);
  return fields.text();
}

RecordSet unpack_records(const std::string& text) {
  FieldReader fields(text);
  RecordSet set;
  set.format = fields.text();
  set.files.resize(static_cast<std::size_t>(fields.number()));
  for (RecordFile& file : set.files) file = next_file(fields);
  while (!fields.done()) set.class_names.push_back(fields.text());
  return set;
}

std::unique_ptr<ImageSource> read_records(RecordSet set) { return std::make_unique<RecordSource>(std::move(set)); }

}  // namespace ddpm::data::prepare
