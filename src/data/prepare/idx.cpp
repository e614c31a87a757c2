#include "data/prepare/idx.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

constexpr uint8_t kBytes = 0x08;
constexpr std::size_t kMagic = 4;
constexpr std::size_t kAxis = 4;

std::string_view name_of_type(uint8_t type) {
  switch (type) {
    case kBytes:
      return "uint8";
    case 0x09:
      return "int8";
    case 0x0B:
      return "int16";
    case 0x0C:
      return "int32";
    case 0x0D:
      return "float32";
    case 0x0E:
      return "float64";
    default:
      return "";
  }
}

/// The sizes of a file of bytes; `wanted` says of how many axes, for messages.
std::vector<int64_t> read_shape(PackedFile& file, std::size_t least, std::size_t most, std::string_view wanted) {
  std::array<uint8_t, kMagic> magic{};
  file.read(0, magic);
  const std::string path = file.path().string();
  if (magic[0] != 0 || magic[1] != 0 || name_of_type(magic[2]).empty()) {
    throw base::DatasetError("{}: begins with bytes {:02x} {:02x} {:02x}, wanted 00 00 08: IDX of uint8", path,
                             magic[0], magic[1], magic[2]);
  }
  if (magic[2] != kBytes) throw base::DatasetError("{}: IDX of {}, wanted uint8", path, name_of_type(magic[2]));
  const std::size_t axes = magic[3];
  if (axes < least || axes > most) throw base::DatasetError("{}: IDX of {} axes, wanted {}", path, axes, wanted);
  std::vector<uint8_t> bytes(axes * kAxis);
  file.read(kMagic, bytes);
  std::vector<int64_t> shape(axes);
  for (std::size_t i = 0; i < bytes.size(); ++i) shape[i / kAxis] = shape[i / kAxis] << 8U | bytes[i];
  return shape;
}

Column column_of(const PackedFile& file, std::size_t axes, int64_t stride) {
  return {file.path(), file.stamp(), kMagic + axes * kAxis, static_cast<uint64_t>(stride)};
}

/// Sets height, width and channels; they are far from overflowing their product with a count below 2^32.
void set_format(RecordFile& found, const std::vector<int64_t>& shape, const PackedFile& file,
                const DecodeLimits& limits) {
  const std::string path = file.path().string();
  const int64_t height = shape[1];
  const int64_t width = shape[2];
  const int64_t channels = shape.size() == 4 ? shape[3] : 1;
  if (std::min(height, width) < 1 || std::max(height, width) > limits.max_side || height * width > limits.max_pixels) {
    throw base::DatasetError("{}: images of {} x {} pixels, wanted 1 to {} a side and at most {} in all", path, height,
                             width, limits.max_side, limits.max_pixels);
  }
  if (channels != 1 && channels != 3) {
    throw base::DatasetError("{}: images of {} channels, wanted 1 or 3 as the last of four axes", path, channels);
  }
  found.height = static_cast<int>(height);
  found.width = static_cast<int>(width);
  found.channels = static_cast<int>(channels);
}

void replace(std::string& name, std::string_view from, std::string_view to) {
  const std::size_t at = name.rfind(from);
  if (at != std::string::npos) name.replace(at, from.size(), to);
}

}  // namespace

bool looks_like_idx(PackedFile& file) {
  std::array<uint8_t, kMagic> magic{};
  if (!file.packed() && file.stamp().size < static_cast<int64_t>(kMagic)) return false;
  file.read(0, magic);
  return magic[0] == 0 && magic[1] == 0 && !name_of_type(magic[2]).empty() && magic[3] >= 1 && magic[3] <= 4;
}

base::Path idx_labels_of(const base::Path& images) {
  constexpr std::string_view kPacked = ".gz";
  std::string name = images.filename().string();
  const bool packed = name.ends_with(kPacked);
  if (packed) name.resize(name.size() - kPacked.size());
  const std::string own = name;
  replace(name, "images", "labels");
  replace(name, "idx3", "idx1");
  replace(name, "idx4", "idx1");
  if (name == own) {
    throw base::DatasetError("{}: its name has no \"images\" to put \"labels\" for; --labels none goes without",
                             images.string());
  }
  // If there are both, the one that is packed as the images are.
  const std::array<std::string, 2> names = {name + (packed ? ".gz" : ""), name + (packed ? "" : ".gz")};
  for (const std::string& candidate : names) {
    const base::Path path = images.parent_path() / candidate;
    if (is_there(path)) return path;
  }
  throw base::DatasetError("{}: its labels, {}, are not beside it; --labels none goes without", images.string(),
                           fmt::format("{} or {}", names[0], names[1]));
}

RecordFile look_at_idx(const base::Path& images, const std::optional<base::Path>& labels, const DecodeLimits& limits) {
  RecordFile found;
  PackedFile file(images);
  const auto shape = read_shape(file, 3, 4, "3 or 4 for images");
  found.count = shape[0];
  set_format(found, shape, file, limits);
  const int64_t bytes = int64_t{found.height} * found.width * found.channels;
  found.images = column_of(file, shape.size(), bytes);
  file.expect_size(found.images.first + static_cast<uint64_t>(found.count * bytes));
  if (!labels) return found;

  PackedFile label_file(*labels);
  const int64_t count = read_shape(label_file, 1, 1, "1 for labels").front();
  if (count != found.count) {
    throw base::DatasetError("{}: {} labels, wanted {} as {} has images", labels->string(), count, found.count,
                             images.string());
  }
  found.labels = column_of(label_file, 1, 1);
  label_file.expect_size(found.labels->first + static_cast<uint64_t>(count));
  constexpr int64_t kMost = std::numeric_limits<uint8_t>::max();
  found.classes = largest_label(label_file, *found.labels, count, kMost, "IDX") + 1;
  return found;
}

}  // namespace ddpm::data::prepare
