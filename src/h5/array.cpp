#include <algorithm>
#include <array>
#include <limits>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "base/file_error.h"
#include "h5/box.h"
#include "h5/chunk_index.h"
#include "h5/file.h"
#include "h5/library.h"
#include "h5/plain_rows.h"
#include "h5/write_driver.h"

namespace ddpm::h5 {

namespace {

constexpr int kMaxAxes = 8;
constexpr std::size_t kMaxAttributeBytes = 4096;
constexpr uint64_t kMaxChunkBytes = uint64_t{1} << 30U;

/// The extents of a chunk, or nothing for an array that is not stored in chunks.
std::vector<uint64_t> chunk_of(hid_t dataset, const std::string& label) {
  const Handle list = property_list(checked(H5Dget_create_plist(dataset), label, "look at the storage"));
  if (H5Pget_layout(list.id()) != H5D_CHUNKED) return {};
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int axes = checked(H5Pget_chunk(list.id(), H5S_MAX_RANK, extents.data()), label, "look at the chunks");
  return {extents.begin(), extents.begin() + axes};
}

/// Bytes of a chunk, 0 without chunks. Refuses chunks that no reader wants: one of them is held in memory whole,
/// however few bytes it takes in the file.
uint64_t modest_chunk_bytes(hid_t dataset, const std::string& label) {
  const std::vector<uint64_t> chunk = chunk_of(dataset, label);
  if (chunk.empty()) return 0;
  const Handle type = data_type(checked(H5Dget_type(dataset), label, "read the element type"));
  uint64_t bytes = H5Tget_size(type.id());
  for (const uint64_t extent : chunk) {
    if (extent == 0 || __builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMaxChunkBytes) {
      throw base::DatasetError(
          "{}: its chunks, [{}], have no or more than {} bytes; store it contiguous, or an image a chunk", label,
          fmt::join(chunk, ", "), kMaxChunkBytes);
    }
  }
  return bytes;
}

/// Whether HDF5 brings the filter itself.
bool has_filter(const Filter& filter) {
  return filter.id >= H5Z_FILTER_DEFLATE && filter.id <= H5Z_FILTER_SCALEOFFSET && H5Zfilter_avail(filter.id) > 0;
}

/// Refuses arrays whose values come from elsewhere, or through code that HDF5 would have to load.
void require_own_storage(hid_t dataset, const std::string& label) {
  const Handle list = property_list(checked(H5Dget_create_plist(dataset), label, "look at the storage"));
  const int external = H5Pget_external_count(list.id());
  if (H5Pget_layout(list.id()) == H5D_VIRTUAL || external != 0) {
    throw base::DatasetError("{}: its values lie in other files ({}); an array stored in this file is wanted", label,
                             external > 0 ? "external storage" : "a virtual dataset");
  }
  static_cast<void>(modest_chunk_bytes(dataset, label));
  const std::vector<Filter> filters = filters_of(dataset, label);
  for (const Filter& filter : filters) {
    if (can_undo(filter) || has_filter(filter)) continue;
    throw base::DatasetError(
        "{}: HDF5 filter {} is not available for it; store it uncompressed, or with gzip, LZ4 or Zstandard", label,
        name_of_filter(filter.id));
  }
  const auto foreign = std::ranges::find_if_not(filters, has_filter);
  if (can_undo_all(filters) || foreign == filters.end()) return;
  throw base::DatasetError(
      "{}: codecs stand after each other, and HDF5 has no filter {}; chunks with one codec are wanted", label,
      name_of_filter(foreign->id));
}

std::vector<int64_t> shape_of(hid_t space, const std::string& label) {
  if (H5Sget_simple_extent_type(space) == H5S_SCALAR) return {1};
  const int axes = H5Sget_simple_extent_ndims(space);
  if (H5Sget_simple_extent_type(space) != H5S_SIMPLE || axes < 1 || axes > kMaxAxes) {
    throw base::DatasetError("{}: an array of 1 to {} axes is wanted, this has {}", label, kMaxAxes, axes);
  }
  std::array<hsize_t, kMaxAxes> extent{};
  checked(H5Sget_simple_extent_dims(space, extent.data(), nullptr), label, "read the shape");
  return {extent.begin(), extent.begin() + axes};
}

/// Bytes of the whole array; an absurd shape, which only a damaged file has, throws.
std::size_t total_bytes(const std::vector<int64_t>& shape, Element element, const std::string& label) {
  std::size_t bytes = std::max<std::size_t>(size_of(element), 1);
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes) ||
        bytes > static_cast<std::size_t>(std::numeric_limits<int64_t>::max())) {
      throw base::DatasetError("{}: its shape, [{}], is too large to be true", label, fmt::join(shape, ", "));
    }
  }
  return bytes;
}

/// The value that the writer has set for what it does not write. Zero is what HDF5 and some libraries take anyway, and
/// means nothing unless the attribute of NetCDF's conventions says that it does.
std::vector<std::byte> fill_of(hid_t dataset, Element element, const std::string& label) {
  const Handle list = property_list(checked(H5Dget_create_plist(dataset), label, "look at the storage"));
  H5D_fill_value_t status = H5D_FILL_VALUE_ERROR;
  checked(H5Pfill_value_defined(list.id(), &status), label, "look for a fill value");
  H5D_fill_time_t time = H5D_FILL_TIME_ERROR;
  checked(H5Pget_fill_time(list.id(), &time), label, "look for a fill value");
  if (element == Element::other || status != H5D_FILL_VALUE_USER_DEFINED || time == H5D_FILL_TIME_NEVER) return {};
  std::vector<std::byte> value(size_of(element));
  checked(H5Pget_fill_value(list.id(), memory_type(element), value.data()), label, "read the fill value");
  const bool is_zero = std::ranges::all_of(value, [](std::byte byte) { return byte == std::byte{0}; });
  if (is_zero && checked(H5Aexists(dataset, "_FillValue"), label, "look for the attribute _FillValue") == 0) return {};
  return value;
}

/// HDF5 gives zeros for what was never written: what an interrupted writer leaves would be read as black images.
/// Chunks of an array with a fill value may be absent.
void require_written(hid_t dataset, const std::vector<int64_t>& shape, bool has_fill, const std::string& label) {
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  checked(H5Dget_space_status(dataset, &status), label, "look at the storage");
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) throw base::DatasetError("{}: nothing was ever written to it", label);
  const std::vector<uint64_t> chunk = chunk_of(dataset, label);
  if (chunk.empty() || has_fill) return;  // without chunks either all of it is allocated, or none
  uint64_t wanted = 1;                    // chunks are no more than elements, whose number does not overflow
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    wanted *= (static_cast<uint64_t>(shape[axis]) - 1) / chunk.at(axis) + 1;
  }
  const Handle space = data_space(checked(H5Dget_space(dataset), label, "read the shape"));
  hsize_t there = 0;
  checked(H5Dget_num_chunks(dataset, space.id(), &there), label, "count the chunks");
  if (there != wanted) {
    throw base::DatasetError("{}: {} of its {} chunks were written; the whole array is wanted", label, there, wanted);
  }
}

}  // namespace

Array::Array(Array&&) noexcept = default;
Array& Array::operator=(Array&&) noexcept = default;
Array::~Array() = default;

Array::Array(Handle handle, std::string label, std::shared_ptr<base::QuietFile> file)
    : handle_(std::move(handle)), label_(std::move(label)), file_(std::move(file)) {
  require_own_storage(handle_.id(), label_);
  space_ = data_space(checked(H5Dget_space(handle_.id()), label_, "read the shape"));
  shape_ = shape_of(space_.id(), label_);
  const Handle type = data_type(checked(H5Dget_type(handle_.id()), label_, "read the element type"));
  element_ = element_of(type.id());
  if (total_bytes(shape_, element_, label_) == 0) {
    row_bytes_ = total_bytes({shape_.begin() + 1, shape_.end()}, element_, label_);
    return;
  }
  row_bytes_ = total_bytes(shape_, element_, label_) / static_cast<std::size_t>(rows());
  fill_ = fill_of(handle_.id(), element_, label_);
  require_written(handle_.id(), shape_, !fill_.empty(), label_);
}

Array::Array(std::string label, std::vector<int64_t> shape, Element element)
    : label_(std::move(label)),
      shape_(std::move(shape)),
      element_(element),
      row_bytes_(total_bytes({shape_.begin() + 1, shape_.end()}, element_, label_)) {}

Array Array::placed(const Path& path, const std::string& name, std::vector<int64_t> shape, Element element,
                    const PlainPlace& place) {
  Array array(path.string() + ":" + name, std::move(shape), element);
  const Extent values{.offset = place.offset, .bytes = array.row_bytes_ * static_cast<uint64_t>(array.rows())};
  const PlainLayout layout{.values = values, .element_bytes = size_of(element), .turned = place.turned};
  array.plain_ = std::make_unique<PlainRows>(std::make_shared<LazyFile>(path), array.label_, layout, nullptr);
  return array;
}

std::size_t Array::row_elements() const { return row_bytes_ / size_of(element_); }

void Array::require_rows(int64_t first, int64_t n) const {
  DDPM_CHECK(first >= 0 && n > 0 && n <= rows() - first, "{}: rows [{}, {} + {}) of {}", label_, first, first, n,
             rows());
}

Handle Array::select(int64_t first, int64_t n) const {
  require_rows(first, n);
  if (H5Sget_simple_extent_type(space_.id()) == H5S_SCALAR) {
    return data_space(checked(H5Screate(H5S_SCALAR), label_, "make a shape"));
  }
  std::array<hsize_t, kMaxAxes> start{};
  std::array<hsize_t, kMaxAxes> count{};
  std::copy(shape_.begin(), shape_.end(), count.begin());
  start[0] = static_cast<hsize_t>(first);
  count[0] = static_cast<hsize_t>(n);
  checked(H5Sselect_hyperslab(space_.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), label_,
          "select rows");
  const hsize_t elements = static_cast<hsize_t>(n) * row_elements();
  return data_space(checked(H5Screate_simple(1, &elements, nullptr), label_, "make a shape"));
}

void Array::read(int64_t first, int64_t n, Element memory, void* out) const {
  if (n == 0) return;
  require_rows(first, n);
  if (chunks_ || plain_) return read_without_hdf5(first, n, memory, out);
  const LibraryLock lock;
  const Handle target = select(first, n);
  checked_read([&] { return H5Dread(handle_.id(), memory_type(memory), target.id(), space_.id(), H5P_DEFAULT, out); },
               label_, fmt::format("read rows {} to {}", first, first + n - 1));
}

void Array::read_without_hdf5(int64_t first, int64_t n, Element memory, void* out) const {
  const std::span bytes(static_cast<std::byte*>(out), static_cast<std::size_t>(n) * row_bytes_);
  if (chunks_) {
    chunks_->read_rows(static_cast<uint64_t>(first), static_cast<uint64_t>(n), bytes);
  } else {
    plain_->read(static_cast<uint64_t>(first) * row_bytes_, bytes);
  }
  if (memory == element_) return;
  DDPM_CHECK(size_of(memory) >= size_of(element_), "{}: {} does not fit into {}", label_, name_of(element_),
             name_of(memory));
  const LibraryLock lock;
  checked(H5Tconvert(memory_type(element_), memory_type(memory), static_cast<std::size_t>(n) * row_elements(), out,
                     nullptr, H5P_DEFAULT),
          label_, "convert values");
}

void Array::read_itself(const Path& path, const std::shared_ptr<LazyFile>& file, const Digests* digests, int threads) {
  const std::vector<uint64_t> chunk = chunk_of(handle_.id(), label_);
  const std::optional<uint64_t> offset = chunk.empty() ? file_offset() : first_chunk_offset(handle_.id(), label_);
  // An array has digests of all its values or of none, in which case HDF5 has read them when they were adopted.
  const Digests* compared = digests != nullptr && offset && digests->holds(*offset) ? digests : nullptr;
  if (!chunk.empty()) {
    std::optional<ChunkLayout> layout = layout_of_chunks(handle_.id(), path, chunk, shape_, element_, label_);
    if (layout) {
      layout->fill = fill_;
      chunks_ = std::make_unique<ChunkReader>(file, label_, std::move(*layout), compared,
                                              static_cast<std::size_t>(std::max(threads, 1)));
    }
  } else if (const auto turn = turned(handle_.id(), element_, label_); turn && offset) {
    const Extent values{.offset = *offset, .bytes = row_bytes_ * static_cast<uint64_t>(rows())};
    const PlainLayout layout{.values = values, .element_bytes = size_of(element_), .turned = *turn};
    plain_ = std::make_unique<PlainRows>(file, label_, layout, compared);
  }
  compared_ = compared != nullptr;
  if (chunks_ || plain_) return;
  if (compared != nullptr) {
    throw base::DatasetError(
        "{}: it has digests that HDF5, which has to read it, does not compare; adopt the file again", label_);
  }
  for (const Filter& filter : filters_of(handle_.id(), label_)) {
    if (has_filter(filter)) continue;
    throw base::DatasetError(
        "{}: its chunks lie in the file in a way that HDF5 alone reads (behind a user block, for example), and HDF5 "
        "has no filter {}; a file without that, or chunks with gzip or none are wanted",
        label_, name_of_filter(filter.id));
  }
}

std::optional<PlainPlace> Array::plain_place() const {
  if (!plain_) return std::nullopt;
  return PlainPlace{.offset = plain_->layout().values.offset, .turned = plain_->layout().turned};
}

std::vector<Extent> Array::extents() const {
  if (plain_) return {plain_->layout().values};
  return chunks_ ? chunks_->extents() : std::vector<Extent>{};
}

void Array::fill(std::span<std::byte> out) const {
  DDPM_CHECK(has_fill(), "{}: no fill value", label_);
  fill_with(fill_, out);
}

void Array::read_rows(int64_t first, int64_t n, std::span<std::byte> out) const {
  DDPM_CHECK(out.size() == static_cast<std::size_t>(n) * row_bytes_, "{}: {} bytes for {} rows of {}", label_,
             out.size(), n, row_bytes_);
  read(first, n, element_, out.data());
}

void Array::read_integers(int64_t first, int64_t n, std::span<int64_t> out) const {
  if (!is_integer(element_)) throw base::DatasetError("{}: integers are wanted, this is {}", label_, name_of(element_));
  DDPM_CHECK(out.size() == static_cast<std::size_t>(n) * row_elements(), "{}: {} values for {} rows", label_,
             out.size(), n);
  if (element_ != Element::u64) return read(first, n, Element::i64, out.data());
  // HDF5's own conversion would turn every larger number into 2^63 - 1.
  read(first, n, Element::u64, out.data());
  const auto beyond = std::find_if(out.begin(), out.end(), [](int64_t value) { return value < 0; });
  if (beyond == out.end()) return;
  throw base::DatasetError("{}: value {} is {}, at most {} is wanted", label_,
                           first * static_cast<int64_t>(row_elements()) + (beyond - out.begin()),
                           static_cast<uint64_t>(*beyond), std::numeric_limits<int64_t>::max());
}

void Array::write_rows(int64_t first, int64_t n, std::span<const std::byte> in) {
  DDPM_CHECK(in.size() == static_cast<std::size_t>(n) * row_bytes_, "{}: {} bytes for {} rows of {}", label_, in.size(),
             n, row_bytes_);
  if (n == 0) return;
  const LibraryLock lock;
  const Handle source = select(first, n);
  const hid_t type = memory_type(element_);
  checked(H5Dwrite(handle_.id(), type, source.id(), space_.id(), H5P_DEFAULT, in.data()), label_, "write");
  if (file_) expect_written(*file_, label_);
}

std::optional<std::string> Array::attribute(const std::string& name) const {
  const LibraryLock lock;
  const std::string subject = label_ + "@" + name;
  if (checked(H5Aexists(handle_.id(), name.c_str()), subject, "look for the attribute") == 0) return std::nullopt;
  const Handle attribute(checked(H5Aopen(handle_.id(), name.c_str(), H5P_DEFAULT), subject, "open"), H5Aclose);
  const Handle type = data_type(checked(H5Aget_type(attribute.id()), subject, "read the type"));
  const Handle space = data_space(checked(H5Aget_space(attribute.id()), subject, "read the shape"));
  const std::size_t size = H5Tget_size(type.id());
  if (H5Tget_class(type.id()) != H5T_STRING || H5Sget_simple_extent_npoints(space.id()) != 1 ||
      size > kMaxAttributeBytes) {
    throw base::DatasetError("{}: a short string is wanted", subject);
  }
  if (H5Tis_variable_str(type.id()) > 0) {
    char* text = nullptr;
    checked(H5Aread(attribute.id(), type.id(), &text), subject, "read");
    std::string value = text == nullptr ? "" : text;
    checked(H5free_memory(text), subject, "release");
    return value;
  }
  std::string value(size, '\0');
  checked(H5Aread(attribute.id(), type.id(), value.data()), subject, "read");
  value.resize(std::min(value.find('\0'), value.size()));  // padded with zeros, or filled
  value.resize(value.find_last_not_of(' ') + 1);           // or padded with spaces, as Fortran does
  return value;
}

void Array::set_attribute(const std::string& name, const std::string& value) {
  const LibraryLock lock;
  const std::string subject = label_ + "@" + name;
  const Handle type = data_type(checked(H5Tcopy(H5T_C_S1), subject, "make a string type"));
  checked(H5Tset_size(type.id(), value.size() + 1), subject, "make a string type");
  const Handle space = data_space(checked(H5Screate(H5S_SCALAR), subject, "make a shape"));
  const Handle attribute(
      checked(H5Acreate2(handle_.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), subject,
              "create"),
      H5Aclose);
  checked(H5Awrite(attribute.id(), type.id(), value.c_str()), subject, "write");
  if (file_) expect_written(*file_, subject);
}

uint64_t Array::chunk_bytes() const {
  if (plain_) return 0;
  const LibraryLock lock;
  return modest_chunk_bytes(handle_.id(), label_);
}

std::optional<uint64_t> Array::file_offset() const {
  if (plain_) return plain_->layout().values.offset;
  const LibraryLock lock;
  const haddr_t offset = H5Dget_offset(handle_.id());
  H5Eclear2(H5E_DEFAULT);
  if (offset == HADDR_UNDEF) return std::nullopt;
  return offset;
}

void Array::close() {
  const LibraryLock lock;
  plain_.reset();
  chunks_.reset();
  space_.close();
  if (file_) checked(H5Dflush(handle_.id()), label_, "write");
  checked(handle_.close(), label_, "close");
  if (file_) expect_written(*file_, label_);
}

}  // namespace ddpm::h5
