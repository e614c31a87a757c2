#include "data/shard_check.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file_error.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

base::DType image_type(const h5::Dataset& images) {
  if (images.element() == h5::Element::u8) return base::DType::u8;
  if (images.element() == h5::Element::f32) return base::DType::f32;
  const bool unusual = images.element() == h5::Element::other;
  throw DatasetError("{}: its elements are {}, uint8 or float32 is wanted: x.astype('float32')", images.label(),
                     unusual ? "of an unusual type (float16, bool, text and the like)" : h5::name_of(images.element()));
}

bool stores_channels_first(const h5::Dataset& images) {
  const std::string layout = images.attribute("layout").value_or("NHWC");
  if (layout == "NCHW") return true;
  if (layout == "NHWC") return false;
  throw DatasetError("{}: attribute layout is \"{}\", NHWC or NCHW is wanted", images.label(), layout);
}

ImageFormat bare_format(const h5::Dataset& images, bool channels_first) {
  const std::vector<int64_t>& shape = images.shape();
  if (shape.size() != 4 || images.rows() < 1 || images.row_bytes() < 1) {
    throw DatasetError("{}: its shape is {}, {} is wanted, with at least one image", images.label(), shape_text(shape),
                       channels_first ? "[n, channels, height, width]" : "[n, height, width, channels]");
  }
  if (const int64_t channels = shape[channels_first ? 1 : 3]; channels > kMaxChannels) {
    throw DatasetError("{}: its images have {} channels, at most {} are wanted", images.label(), channels,
                       kMaxChannels);
  }
  if (channels_first) {
    return {.height = shape[2], .width = shape[3], .channels = shape[1], .dtype = image_type(images)};
  }
  return {.height = shape[1], .width = shape[2], .channels = shape[3], .dtype = image_type(images)};
}

std::optional<h5::Dataset> bare_labels(const h5::File& file, const std::string& name, int64_t count) {
  if (name.empty()) return std::nullopt;
  // The default name may be absent; a name that somebody gave may not.
  if (name == DatasetOptions{}.labels && !file.contains(name)) return std::nullopt;
  h5::Dataset labels = file.dataset(name);
  const bool one_each = labels.shape() == std::vector{count} || labels.shape() == std::vector{count, int64_t{1}};
  if (!one_each || !h5::is_integer(labels.element())) {
    throw DatasetError("{}: {} of {}, integers of shape [{}] are wanted", labels.label(), shape_text(labels.shape()),
                       h5::name_of(labels.element()), count);
  }
  return labels;
}

std::optional<h5::Dataset> bare_checksums(const h5::File& file, const DatasetOptions& options, int64_t count) {
  if (options.images != DatasetOptions{}.images || !file.contains("/checksums")) return std::nullopt;
  h5::Dataset checksums = file.dataset("/checksums");
  if (checksums.attribute(kChecksumAttribute) != kChecksumAlgorithm) return std::nullopt;
  check_shard_rows(checksums, h5::Element::u32, count);
  return checksums;
}

}  // namespace

void check_shard_file(const Path& folder, const ShardInfo& shard) {
  const Path path = folder / shard.file;
  const uint64_t size = base::read_as<DatasetError>([&] { return base::posix_file_system()->file_size(path); });
  if (size != shard.size) throw DatasetError("{}: it has {} bytes, {} were written", path.string(), size, shard.size);
  const std::string digest = sha256_of_prefix(path, shard.header_size);
  if (digest != shard.header_sha256) {
    throw DatasetError("{}: the SHA-256 of its first {} bytes is {}, {} was written; the file is damaged",
                       path.string(), shard.header_size, digest, shard.header_sha256);
  }
}

void check_shard_images(const h5::Dataset& images, const DatasetInfo& info, const ShardInfo& shard) {
  const ImageFormat image = info.image();
  const std::vector<int64_t> wanted = {shard.count, image.height, image.width, image.channels};
  const auto element = image.dtype == base::DType::u8 ? h5::Element::u8 : h5::Element::f32;
  if (images.shape() != wanted || images.element() != element) {
    throw DatasetError("{}: {} of {}, {} promises {} of {}", images.label(), shape_text(images.shape()),
                       h5::name_of(images.element()), kDescriptionFile, shape_text(wanted), h5::name_of(element));
  }
  if (shard.count > 0 && images.file_offset() != shard.header_size) {
    throw DatasetError("{}: the images do not follow the header of {} bytes", images.label(), shard.header_size);
  }
}

void check_shard_rows(const h5::Dataset& array, h5::Element element, int64_t count) {
  if (array.shape() != std::vector{count} || array.element() != element) {
    throw DatasetError("{}: {} of {}, [{}] of {} is wanted", array.label(), shape_text(array.shape()),
                       h5::name_of(array.element()), count, h5::name_of(element));
  }
}

BareArrays open_bare_arrays(const h5::File& file, const DatasetOptions& options) {
  BareArrays bare;
  bare.images = file.dataset(options.images);
  bare.channels_first = stores_channels_first(*bare.images);
  DatasetInfo& info = bare.info;
  const ImageFormat image = bare_format(*bare.images, bare.channels_first);
  info.count = bare.images->rows();
  bare.labels = bare_labels(file, options.labels, info.count);
  bare.checksums = bare_checksums(file, options, info.count);
  info.fields = image_fields(image, Normalization::of(image.dtype), bare.labels.has_value());
  for (Field& field : info.fields) field.path = field.role == FieldRole::image ? options.images : options.labels;
  ShardInfo shard;
  shard.file = file.path().filename().string();
  shard.count = info.count;
  shard.size = base::read_as<DatasetError>([&] { return base::posix_file_system()->file_size(file.path()); });
  info.shards.push_back(std::move(shard));
  return bare;
}

}  // namespace ddpm::data
