#include "data/shard_check.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file_error.h"
#include "data/foreign_variable.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

using base::DType;

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

DType image_type(const h5::Array& images) {
  if (images.element() == h5::Element::u8) return DType::u8;
  if (images.element() == h5::Element::f32) return DType::f32;
  const bool unusual = images.element() == h5::Element::other;
  throw DatasetError("{}: its elements are {}, uint8 or float32 is wanted: x.astype('float32')", images.label(),
                     unusual ? "of an unusual type (float16, bool, text and the like)" : h5::name_of(images.element()));
}

/// Refuses arrays that are not of the one type that their role has.
void expect_element(const h5::Array& array, h5::Element wanted) {
  if (array.element() == wanted) return;
  const bool unusual = array.element() == h5::Element::other;
  throw DatasetError("{}: its elements are {}, {} is wanted: x.astype('{}')", array.label(),
                     unusual ? "of an unusual type (float16, bool, text and the like)" : h5::name_of(array.element()),
                     h5::name_of(wanted), h5::name_of(wanted));
}

bool stores_channels_first(const h5::Array& images) {
  const std::string layout = images.attribute("layout").value_or("NHWC");
  if (layout == "NCHW") return true;
  if (layout == "NHWC") return false;
  throw DatasetError("{}: attribute layout is \"{}\", NHWC or NCHW is wanted", images.label(), layout);
}

ImageFormat bare_format(const h5::Array& images, bool channels_first) {
  const std::vector<int64_t>& shape = images.shape();
  const bool deep = shape.size() == 5;
  if ((shape.size() != 4 && !deep) || images.rows() < 1 || images.row_bytes() < 1) {
    throw DatasetError("{}: its shape is {}, {} is wanted, with at least one image", images.label(), shape_text(shape),
                       channels_first ? "[n, channels, height, width]" : "[n, height, width, channels]");
  }
  std::vector<int64_t> image(shape.begin() + 1, shape.end());
  if (channels_first) std::rotate(image.begin(), image.begin() + 1, image.end());
  if (image.back() > kMaxChannels) {
    throw DatasetError("{}: its images have {} channels, at most {} are wanted", images.label(), image.back(),
                       kMaxChannels);
  }
  return ImageFormat::of(image, image_type(images));
}

std::optional<h5::Array> bare_labels(const h5::File& file, const std::string& name, int64_t count) {
  if (name.empty()) return std::nullopt;
  // The default name may be absent; a name that somebody gave may not.
  if (name == DatasetOptions{}.labels && !file.contains(name)) return std::nullopt;
  h5::Array labels = file.array(name);
  const bool one_each = labels.shape() == std::vector{count} || labels.shape() == std::vector{count, int64_t{1}};
  if (!one_each || !h5::is_integer(labels.element())) {
    throw DatasetError("{}: {} of {}, integers of shape [{}] are wanted", labels.label(), shape_text(labels.shape()),
                       h5::name_of(labels.element()), count);
  }
  return labels;
}

std::optional<h5::Array> bare_checksums(const h5::File& file, const DatasetOptions& options, int64_t count) {
  if (options.images != DatasetOptions{}.images || !file.contains("/checksums")) return std::nullopt;
  h5::Array checksums = file.array("/checksums");
  if (checksums.attribute(kChecksumAttribute) != kChecksumAlgorithm) return std::nullopt;
  check_shard_rows(checksums, h5::Element::u32, count);
  return checksums;
}

/// The axes of a role's array in a bare file, as its message names them.
std::string_view wanted_axes(FieldRole role, bool channels_first) {
  switch (role) {
    case FieldRole::condition:
      return channels_first ? "[n, channels, height, width]" : "[n, height, width, channels]";
    case FieldRole::static_values:
      return channels_first ? "[channels, height, width]" : "[height, width, channels]";
    case FieldRole::parameters:
      return "[n, parameters]";
    default:
      return "[n, height, width] or [height, width]";
  }
}

/// Adds the array that `name` has, if any, for a role.
void add_bare_array(const h5::File& file, FieldRole role, const std::string& name, BareFile& bare) {
  if (name.empty()) return;
  h5::Array array = file.array(name);
  const bool like_image = is_like_image(role);
  const bool channels_first = like_image && stores_channels_first(array);
  const std::size_t sides = bare.info.image().depth == 0 ? 2 : 3;
  const bool per_set = is_per_set(role, array.shape().size(), sides);
  const std::size_t axes = like_image ? sides + 1 : role == FieldRole::mask ? sides : 1;
  std::vector<int64_t> shape(array.shape().begin() + (per_set ? 0 : 1), array.shape().end());
  const bool one_each = per_set || array.rows() == bare.info.count;
  if (shape.size() != axes || !one_each || std::ranges::count(shape, 0) > 0) {
    throw DatasetError("{}: its shape is {}, {} is wanted{}{}", array.label(), shape_text(array.shape()),
                       wanted_axes(role, channels_first), sides == 3 ? " of volumes, with the depth before" : "",
                       one_each ? "" : fmt::format(", with n = {} as the images have it", bare.info.count));
  }
  const DType dtype = like_image ? image_type(array) : number_type(role);
  if (!like_image) expect_element(array, element_of(dtype));
  if (channels_first) std::rotate(shape.begin(), shape.begin() + 1, shape.end());
  if (has_variables(role) && shape.back() > kMaxChannels) {
    throw DatasetError("{}: {} numbers for each {}, at most {} are wanted", array.label(), shape.back(),
                       like_image ? "pixel" : "image", kMaxChannels);
  }
  bare.info.fields.push_back(make_field(role, name, shape, dtype, per_set));
  expect_usable(bare.info.fields.back(), array.label());
  expect_fitting(bare.info.fields, array.label());
  bare.rows.push_back(std::make_unique<StoredRows>(
      std::move(array), file.path(),
      StoredRows::Form{
          .shape = std::move(shape), .dtype = dtype, .per_set = per_set, .channels_first = channels_first}));
}

/// How many images a file without them would have, by what is given with them.
int64_t count_without_images(const h5::File& file, const DatasetOptions& options) {
  for (const std::string& name : {options.condition, options.parameters, options.labels}) {
    if (!name.empty() && file.contains(name)) return file.array(name).rows();
  }
  if (options.mask.empty() || !file.contains(options.mask)) return 0;
  const h5::Array mask = file.array(options.mask);
  const bool of_each = mask.shape().size() == options.absent_images.size();  // with n in place of the channels
  return of_each ? mask.rows() : 0;
}

/// The images of the file, or what stands for them.
void add_images(const h5::File& file, const DatasetOptions& options, BareFile& bare) {
  DatasetInfo& info = bare.info;
  info.count = options.absent_images.empty() || file.contains(options.images) ? 0 : count_without_images(file, options);
  if (info.count > 0) {
    bare.rows.push_back(
        std::make_unique<AbsentRows>(file.path().string() + ":" + options.images, options.absent_images, info.count));
    info.fields = image_fields(ImageFormat::of(options.absent_images, DType::f32), {}, /*has_labels=*/false);
    return;
  }
  if (!file.contains(options.images)) {
    throw DatasetError(
        "{}: there is no {}; it has {}. {} names the array of the images, {} those of which images are composed",
        file.path().string(), options.images, some_of(file.names_in("/")), options.key("images"),
        options.key("variables"));
  }
  h5::Array images = file.array(options.images);
  const bool channels_first = stores_channels_first(images);
  const ImageFormat image = bare_format(images, channels_first);
  info.count = images.rows();
  bare.rows.push_back(std::make_unique<StoredRows>(
      std::move(images), file.path(),
      StoredRows::Form{.shape = image.shape(), .dtype = image.dtype, .channels_first = channels_first}));
  info.fields = image_fields(image, Normalization::of(image.dtype), /*has_labels=*/false);
  info.fields.front().path = options.images;
  // Such checksums are those of images stored channels last.
  if (!channels_first) bare.checksums = bare_checksums(file, options, info.count);
}

}  // namespace

h5::Element element_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return h5::Element::u8;
    case DType::i64:
      return h5::Element::i64;
    default:
      return h5::Element::f32;
  }
}

void check_shard_file(const Path& path, const ShardInfo& shard) {
  const uint64_t size = base::read_as<DatasetError>([&] { return base::posix_file_system()->file_size(path); });
  if (size != shard.size) throw DatasetError("{}: it has {} bytes, {} were written", path.string(), size, shard.size);
  const std::string digest = sha256_of_prefix(path, shard.header_size);
  if (digest != shard.header_sha256) {
    throw DatasetError("{}: the SHA-256 of its first {} bytes is {}, {} was written; the file is damaged",
                       path.string(), shard.header_size, digest, shard.header_sha256);
  }
}

void check_shard_array(const h5::Array& array, const Field& field, const DatasetInfo& info, const ShardInfo& shard) {
  std::vector<int64_t> wanted = field.shape;
  if (!field.per_set) wanted.insert(wanted.begin(), shard.count);
  const h5::Element element = element_of(field.dtype);
  if (array.shape() != wanted || array.element() != element) {
    throw DatasetError("{}: {} of {}, {} promises {} of {}", array.label(), shape_text(array.shape()),
                       h5::name_of(array.element()), kDescriptionFile, shape_text(wanted), h5::name_of(element));
  }
  const uint64_t bytes = array.row_bytes() * static_cast<uint64_t>(array.rows());
  if (bytes == 0) return;
  const uint64_t offset = array.file_offset().value_or(0);
  const bool several = std::ranges::count_if(info.fields, &Field::is_read_in_blocks) > 1;
  if (field.is_read_in_blocks()) {
    if (several ? offset < shard.header_size || bytes > shard.size || offset > shard.size - bytes
                : offset != shard.header_size) {
      throw DatasetError("{}: the images do not follow the header of {} bytes", array.label(), shard.header_size);
    }
  } else if (several && (offset == 0 || offset > shard.header_size || bytes > shard.header_size - offset)) {
    throw DatasetError("{}: its values do not lie in the header of {} bytes, which has a digest", array.label(),
                       shard.header_size);
  }
}

void check_shard_rows(const h5::Array& array, h5::Element element, int64_t count) {
  if (array.shape() != std::vector{count} || array.element() != element) {
    throw DatasetError("{}: {} of {}, [{}] of {} is wanted", array.label(), shape_text(array.shape()),
                       h5::name_of(array.element()), count, h5::name_of(element));
  }
}

BareFile open_bare_file(const h5::File& file, const DatasetOptions& options) {
  BareFile bare;
  DatasetInfo& info = bare.info;
  add_images(file, options, bare);
  if (auto labels = bare_labels(file, options.labels, info.count)) {
    bare.rows.push_back(std::make_unique<StoredRows>(std::move(*labels), file.path(),
                                                     StoredRows::Form{.shape = {}, .dtype = DType::i64}));
    info.fields.push_back(make_field(FieldRole::labels, options.labels, {}, DType::i64, false));
    info.fields.back().name = "labels";
  }
  add_bare_array(file, FieldRole::condition, options.condition, bare);
  add_bare_array(file, FieldRole::static_values, options.static_values, bare);
  add_bare_array(file, FieldRole::parameters, options.parameters, bare);
  const bool lacks_mask =
      options.mask_use != MaskUse::required && !options.mask.empty() && !file.contains(options.mask);
  if (!lacks_mask) add_bare_array(file, FieldRole::mask, options.mask, bare);
  return bare;
}

}  // namespace ddpm::data
