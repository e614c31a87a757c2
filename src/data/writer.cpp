#include "data/writer.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "data/finite.h"
#include "data/shard_check.h"
#include "h5/file.h"

namespace ddpm::data {

namespace {

using base::DatasetError;

constexpr uint64_t kPage = 4096;
constexpr std::size_t kCopyBytes = std::size_t{8} << 20U;

/// The arrays of a shard in the order of their places in the file: images last, so that all before them is the header.
struct Arrays {
  h5::File file;
  h5::Dataset checksums;
  std::vector<h5::Dataset> columns;
  h5::Dataset images;

  static Arrays create(const Path& path, const ImageFormat& format, const std::vector<std::string>& names,
                       int64_t count) {
    h5::File file = h5::File::create(path, {.alignment = kPage, .align_from = kPage});
    const auto element = format.dtype == base::DType::u8 ? h5::Element::u8 : h5::Element::f32;
    const std::vector<int64_t> rows = {count};
    std::vector<int64_t> shape = format.shape();
    shape.insert(shape.begin(), count);
    h5::Dataset checksums = file.create_dataset("/checksums", h5::Element::u32, rows);
    checksums.set_attribute(kChecksumAttribute, kChecksumAlgorithm);
    std::vector<h5::Dataset> columns;
    columns.reserve(names.size());
    for (const std::string& name : names) columns.push_back(file.create_dataset(name, h5::Element::i64, rows));
    h5::Dataset images = file.create_dataset("/images", element, shape);
    return {std::move(file), std::move(checksums), std::move(columns), std::move(images)};
  }

  void close() {
    images.close();
    for (h5::Dataset& column : columns) column.close();
    checksums.close();
    file.close();
  }
};

void require_finite(std::span<const std::byte> image, const Path& path, int64_t index) {
  const std::optional<int64_t> found = first_non_finite(image);
  if (!found) return;
  float value = 0.0F;
  std::memcpy(&value, image.data() + static_cast<std::size_t>(*found) * sizeof(value), sizeof(value));
  throw DatasetError("{}: image {} holds {}, which is not a number to train on", path.string(), index, value);
}

}  // namespace

struct ShardWriter::State {
  base::FileSystem& files;
  Path path;
  ImageFormat format;
  std::vector<std::string> names;  // of the columns
  int64_t capacity;
  Statistics statistics;
  std::vector<uint32_t> checksums;
  std::vector<std::vector<int64_t>> columns;
  std::optional<Arrays> arrays;

  [[nodiscard]] int64_t count() const { return std::ssize(checksums); }

  void create_file(const Path& at) const { files.create_exclusive(at)->close(); }

  void write_header(Arrays& to) const {
    to.checksums.write_rows(0, count(), std::as_bytes(std::span(checksums)));
    for (std::size_t c = 0; c < columns.size(); ++c) {
      to.columns[c].write_rows(0, count(), std::as_bytes(std::span(columns[c])));
    }
  }

  /// An array without filters cannot shrink: copies what there is into a file of the exact size and puts it in place.
  void rewrite_exact() {
    arrays->close();
    arrays.reset();
    Path exact = path;
    exact += ".exact";
    create_file(exact);
    const h5::File source = h5::File::open(path);
    const h5::Dataset from = source.dataset("/images");
    Arrays to = Arrays::create(exact, format, names, count());
    const int64_t piece = std::max<int64_t>(1, static_cast<int64_t>(kCopyBytes / format.bytes()));
    std::vector<std::byte> buffer;
    for (int64_t first = 0; first < count(); first += piece) {
      const int64_t n = std::min(piece, count() - first);
      buffer.resize(static_cast<std::size_t>(n) * format.bytes());
      from.read_rows(first, n, buffer);
      to.images.write_rows(first, n, buffer);
    }
    write_header(to);
    to.close();
    files.rename(exact, path);
  }

  /// HDF5 can report success and lose what it wrote when closing: what counts is what the file holds now.
  void require_written() const {
    const h5::File file = h5::File::open(path);
    std::vector<uint32_t> stored(checksums.size());
    file.dataset("/checksums").read_rows(0, count(), std::as_writable_bytes(std::span(stored)));
    bool whole = stored == checksums && file.dataset("/images").rows() == count();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::vector<int64_t> numbers(columns[c].size());
      file.dataset(names[c]).read_rows(0, count(), std::as_writable_bytes(std::span(numbers)));
      whole = whole && numbers == columns[c];
    }
    if (!whole) throw DatasetError("{}: does not hold what was written to it", path.string());
  }
};

ShardWriter::ShardWriter(base::FileSystem& files, Path path, const ImageFormat& format,
                         std::vector<std::string> columns, int64_t capacity)
    : state_(std::make_unique<State>(State{.files = files,
                                           .path = std::move(path),
                                           .format = format,
                                           .names = std::move(columns),
                                           .capacity = capacity,
                                           .statistics = Statistics(format),
                                           .checksums = {},
                                           .columns = {},
                                           .arrays = std::nullopt})) {
  DDPM_CHECK(format.dtype == base::DType::u8 || format.dtype == base::DType::f32, "images are uint8 or float32");
  state_->create_file(state_->path);
  state_->columns.resize(state_->names.size());
  state_->arrays.emplace(Arrays::create(state_->path, format, state_->names, capacity));
}

ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;
ShardWriter& ShardWriter::operator=(ShardWriter&&) noexcept = default;

int64_t ShardWriter::count() const { return state_->count(); }

void ShardWriter::append(std::span<const std::byte> images, const std::vector<std::span<const int64_t>>& columns) {
  State& s = *state_;
  const auto n = static_cast<int64_t>(images.size() / s.format.bytes());
  DDPM_CHECK(images.size() % s.format.bytes() == 0 && n <= s.capacity - s.count(), "{}: {} bytes after {} of {} images",
             s.path.string(), images.size(), s.count(), s.capacity);
  DDPM_CHECK(columns.size() == s.names.size(), "{}: {} columns of {}", s.path.string(), columns.size(), s.names.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    DDPM_CHECK(std::ssize(columns[c]) == n, "{}:{}: {} numbers for {} images", s.path.string(), s.names[c],
               columns[c].size(), n);
  }
  const int64_t first = s.count();
  for (int64_t i = 0; i < n; ++i) {
    const auto image = images.subspan(static_cast<std::size_t>(i) * s.format.bytes(), s.format.bytes());
    if (s.format.dtype == base::DType::f32) require_finite(image, s.path, first + i);
  }
  s.arrays->images.write_rows(first, n, images);
  for (int64_t i = 0; i < n; ++i) {
    const auto image = images.subspan(static_cast<std::size_t>(i) * s.format.bytes(), s.format.bytes());
    s.checksums.push_back(base::crc32c(image));
    s.statistics.add(image);
  }
  for (std::size_t c = 0; c < columns.size(); ++c) {
    s.columns[c].insert(s.columns[c].end(), columns[c].begin(), columns[c].end());
  }
}

ShardResult ShardWriter::finish() {
  State& s = *state_;
  DDPM_CHECK(s.arrays.has_value(), "{}: a shard is finished once", s.path.string());
  if (s.count() < s.capacity) {
    s.rewrite_exact();
  } else {
    s.write_header(*s.arrays);
    s.arrays->close();
    s.arrays.reset();
  }
  s.files.sync_file(s.path);
  s.require_written();

  ShardResult result{.info = {}, .statistics = s.statistics};
  result.info.count = s.count();
  result.info.size = s.files.file_size(s.path);
  const uint64_t pixels = static_cast<uint64_t>(s.count()) * s.format.bytes();
  result.info.header_size = result.info.size - pixels;
  const auto offset = h5::File::open(s.path).dataset("/images").file_offset();
  DDPM_CHECK(pixels == 0 || offset == result.info.header_size, "{}: images at {} of {} bytes are not last",
             s.path.string(), offset.value_or(0), result.info.size);
  result.info.sha256 = base::sha256_file(s.path);
  result.info.header_sha256 = sha256_of_prefix(s.path, result.info.header_size);
  return result;
}

DatasetInfo assemble(std::vector<Field> fields, std::vector<std::string> class_names,
                     std::span<const ShardResult> shards) {
  DatasetInfo info;
  info.fields = std::move(fields);
  info.class_names = std::move(class_names);
  Statistics all(info.image());
  for (const ShardResult& shard : shards) {
    all.merge(shard.statistics);
    info.shards.push_back(shard.info);
    info.shards.back().file = shard_file_name(std::ssize(info.shards) - 1, std::ssize(shards));
    info.shards.back().first = info.count;
    info.count += shard.info.count;
  }
  if (info.count == 0) throw DatasetError("no image was found: a dataset holds at least one");
  info.statistics = all.result();
  return info;
}

std::string to_json_text(const ShardResult& shard) {
  base::OrderedJson json;
  json["count"] = shard.info.count;
  json["size"] = shard.info.size;
  json["sha256"] = shard.info.sha256;
  json["header_size"] = shard.info.header_size;
  json["header_sha256"] = shard.info.header_sha256;
  json["statistics"] = shard.statistics.to_json();
  return json.dump() + "\n";
}

ShardResult parse_shard_result(std::string_view text, const ImageFormat& format, const std::string& origin) {
  try {
    const base::Json json = base::parse_json(text);
    ShardResult result{.info = {}, .statistics = Statistics::from_json(format, json.at("statistics"))};
    json.at("count").get_to(result.info.count);
    json.at("size").get_to(result.info.size);
    json.at("sha256").get_to(result.info.sha256);
    json.at("header_size").get_to(result.info.header_size);
    json.at("header_sha256").get_to(result.info.header_sha256);
    return result;
  } catch (const std::exception& error) {
    throw DatasetError("{}: no description of a finished shard: {}", origin, error.what());
  }
}

}  // namespace ddpm::data
