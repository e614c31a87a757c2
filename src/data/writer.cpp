#include "data/writer.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/sha256.h"
#include "data/shard_check.h"
#include "h5/file.h"

namespace ddpm::data {

namespace {

using base::DatasetError;
using base::DType;

/// HDF5's failures are dataset errors, but here a file is being written.
template <typename Work>
auto as_output(const Work& work) {
  try {
    return work();
  } catch (const DatasetError& error) {
    throw base::OutputError("{}", error.what());
  }
}

constexpr uint64_t kPage = 4096;
constexpr std::size_t kCopyBytes = std::size_t{8} << 20U;
/// HDF5's own description of a shard of many arrays lies in one block at its beginning, where a digest covers it.
constexpr uint64_t kMetadataBytes = uint64_t{64} << 10U;

/// The arrays of a shard in the order of their places in the file: what is read in blocks comes last, so that all
/// before it is the header.
struct Arrays {
  h5::File file;
  std::vector<h5::Array> checksums;  // checksums of the fields that are read in blocks, in the order of the fields
  std::vector<h5::Array> held;       // the other fields of each image, in the order of the fields
  std::vector<h5::Array> shared;     // values that all images of the set share
  std::vector<h5::Array> blocks;

  void close() {
    for (auto* arrays : {&blocks, &shared, &held, &checksums}) {
      for (h5::Array& array : *arrays) array.close();
    }
    file.close();
  }
};

/// How HDF5 places arrays in a shard.
h5::File::CreateOptions placement(const ShardWriter::Contents& contents, int64_t count) {
  const auto is_plain = [](const Field& f) { return f.role == FieldRole::image || f.role == FieldRole::labels; };
  const bool plain = contents.set_fields.empty() && std::ranges::all_of(contents.fields, is_plain);
  // Where images alone follow the header they are aligned. Without alignment there are no gaps: HDF5 would fill those
  // with small arrays, out of order.
  const uint64_t usual = plain ? kPage : 1;
  h5::File::CreateOptions options{
      .alignment = usual, .align_from = usual, .metadata_block = plain ? 0 : kMetadataBytes};
  if (contents.alignment == 0) return options;
  // What is smaller than each block stands before all of them, also where it fills a gap.
  options.alignment = static_cast<uint64_t>(contents.alignment);
  options.align_from = std::numeric_limits<uint64_t>::max();
  for (const Field& field : contents.fields) {
    const uint64_t bytes = std::max<uint64_t>(1, static_cast<uint64_t>(count) * field.bytes());
    if (field.is_read_in_blocks()) options.align_from = std::min(options.align_from, bytes);
  }
  return options;
}

Arrays create_arrays(const Path& path, const ShardWriter::Contents& contents, int64_t count) {
  h5::File file = h5::File::create(path, placement(contents, count));
  const auto rows_of = [&](const Field& field) {
    std::vector<int64_t> shape = field.shape;
    shape.insert(shape.begin(), count);
    return file.create_array(field.path, element_of(field.dtype), shape);
  };
  std::vector<h5::Array> checksums;
  std::vector<h5::Array> held;
  std::vector<h5::Array> shared;
  std::vector<h5::Array> blocks;
  for (const Field& field : contents.fields) {
    if (!field.is_read_in_blocks()) continue;
    checksums.push_back(file.create_array(checksums_path(field), h5::Element::u32, std::vector{count}));
    checksums.back().set_attribute(kChecksumAttribute, kChecksumAlgorithm);
  }
  for (const Field& field : contents.fields) {
    if (!field.is_read_in_blocks()) held.push_back(rows_of(field));
  }
  for (const Field& field : contents.set_fields) {
    shared.push_back(file.create_array(field.path, element_of(field.dtype), field.shape));
  }
  for (const Field& field : contents.fields) {
    if (field.is_read_in_blocks()) blocks.push_back(rows_of(field));
  }
  return {std::move(file), std::move(checksums), std::move(held), std::move(shared), std::move(blocks)};
}

/// Images alone, and columns of one number each.
ShardWriter::Contents plain_contents(const ImageFormat& format, const std::vector<std::string>& columns,
                                     int64_t alignment) {
  DDPM_CHECK(format.dtype == DType::u8 || format.dtype == DType::f32, "images are uint8 or float32");
  ShardWriter::Contents contents{.fields = image_fields(format, {}, /*has_labels=*/false), .alignment = alignment};
  for (const std::string& column : columns) {
    contents.fields.push_back(make_field(FieldRole::labels, column, {}, DType::i64, false));
  }
  return contents;
}

}  // namespace

struct ShardWriter::State {
  base::FileSystem& files;
  Path path;
  Contents contents;
  int64_t capacity;
  std::size_t images;  // places in contents.fields
  std::size_t masks;   // place of the mask field; contents.fields.size() where there are no masks of each image
  Statistics statistics;
  std::vector<std::vector<uint32_t>> checksums;  // CRC-32C of each image, for each field that is read in blocks
  std::vector<std::vector<std::byte>> held;      // values of each other field; both by place in contents.fields
  int64_t count = 0;
  std::optional<Arrays> arrays;

  [[nodiscard]] const Field& field(std::size_t f) const { return contents.fields[f]; }
  [[nodiscard]] std::string label(std::size_t f) const { return path.string() + ":" + field(f).path; }

  void create_file(const Path& at) const { files.create_exclusive(at)->close(); }

  void write_header(Arrays& to) const {
    std::size_t block = 0;
    std::size_t other = 0;
    for (std::size_t f = 0; f < contents.fields.size(); ++f) {
      if (field(f).is_read_in_blocks()) {
        to.checksums[block++].write_rows(0, count, std::as_bytes(std::span(checksums[f])));
      } else {
        to.held[other++].write_rows(0, count, held[f]);
      }
    }
    for (std::size_t f = 0; f < contents.set_fields.size(); ++f) {
      to.shared[f].write_rows(0, to.shared[f].rows(), contents.set_values[f]);
    }
  }

  void copy_rows(const h5::Array& from, h5::Array& to, std::size_t bytes) const {
    const int64_t piece = std::max<int64_t>(1, static_cast<int64_t>(kCopyBytes / bytes));
    std::vector<std::byte> buffer;
    for (int64_t first = 0; first < count; first += piece) {
      const int64_t n = std::min(piece, count - first);
      buffer.resize(static_cast<std::size_t>(n) * bytes);
      from.read_rows(first, n, buffer);
      to.write_rows(first, n, buffer);
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
    Arrays to = create_arrays(exact, contents, count);
    std::size_t block = 0;
    for (const Field& field : contents.fields) {
      if (field.is_read_in_blocks()) copy_rows(source.array(field.path), to.blocks[block++], field.bytes());
    }
    write_header(to);
    to.close();
    files.rename(exact, path);
  }

  [[nodiscard]] bool holds(const h5::File& file, const std::string& array, std::span<const std::byte> wanted) const {
    const h5::Array stored = file.array(array);
    if (stored.row_bytes() * static_cast<std::size_t>(stored.rows()) != wanted.size()) return false;
    std::vector<std::byte> values(wanted.size());
    stored.read_rows(0, stored.rows(), values);
    return std::ranges::equal(values, wanted);
  }

  /// HDF5 can report success and lose what it wrote when closing: what counts is what the file holds now.
  void require_written() const {
    const h5::File file = h5::File::open(path);
    bool whole = true;
    for (std::size_t f = 0; f < contents.fields.size(); ++f) {
      const bool in_blocks = field(f).is_read_in_blocks();
      whole = whole && (in_blocks ? holds(file, checksums_path(field(f)), std::as_bytes(std::span(checksums[f]))) &&
                                        file.array(field(f).path).rows() == count
                                  : holds(file, field(f).path, held[f]));
    }
    for (std::size_t f = 0; f < contents.set_fields.size(); ++f) {
      whole = whole && holds(file, contents.set_fields[f].path, contents.set_values[f]);
    }
    if (!whole) throw DatasetError("{}: does not hold what was written to it", path.string());
  }

  /// Where the first block of values begins, behind which nothing but such blocks may lie.
  [[nodiscard]] uint64_t header_size(uint64_t size) const {
    const h5::File file = h5::File::open(path);
    uint64_t at = size;
    uint64_t end = size;
    uint64_t gap = kPage;  // behind the last block
    for (auto field = contents.fields.rbegin(); field != contents.fields.rend(); ++field) {
      if (!field->is_read_in_blocks() || count == 0) continue;
      const uint64_t bytes = static_cast<uint64_t>(count) * field->bytes();
      at = file.array(field->path).file_offset().value_or(0);
      DDPM_CHECK(at + bytes <= end && end - at - bytes < gap, "{}: {} at {} of {} bytes is not among the last",
                 path.string(), field->path, at, size);
      end = at;
      gap = std::max(kPage, static_cast<uint64_t>(contents.alignment));
    }
    return at;
  }

  void add_to_statistics(const FieldValues& values, int64_t n) {
    const std::size_t bytes = field(images).bytes();
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      std::span<const std::byte> valid = contents.set_mask;
      if (masks < contents.fields.size()) {
        valid = values[masks].subspan(i * field(masks).bytes(), field(masks).bytes());
      }
      statistics.add(values[images].subspan(i * bytes, bytes), valid);
    }
  }

  void keep(std::size_t f, std::span<const std::byte> values) {
    if (!field(f).is_read_in_blocks()) {
      held[f].insert(held[f].end(), values.begin(), values.end());
      return;
    }
    const std::size_t bytes = field(f).bytes();
    for (std::size_t at = 0; at < values.size(); at += bytes) {
      checksums[f].push_back(base::crc32c(values.subspan(at, bytes)));
    }
  }
};

ShardWriter::ShardWriter(base::FileSystem& files, Path path, Contents contents, int64_t capacity) {
  const auto place_of = [&](FieldRole role) {
    return static_cast<std::size_t>(std::ranges::find(contents.fields, role, &Field::role) - contents.fields.begin());
  };
  const std::size_t images = place_of(FieldRole::image);
  const std::size_t masks = place_of(FieldRole::mask);
  DDPM_CHECK(images < contents.fields.size(), "{}: a shard has images", path.string());
  DDPM_CHECK(contents.set_fields.size() == contents.set_values.size(), "{}: {} arrays of the set, values of {}",
             path.string(), contents.set_fields.size(), contents.set_values.size());
  const std::size_t fields = contents.fields.size();
  const ImageFormat format = contents.fields[images].format();
  state_ = std::make_unique<State>(State{.files = files,
                                         .path = std::move(path),
                                         .contents = std::move(contents),
                                         .capacity = capacity,
                                         .images = images,
                                         .masks = masks,
                                         .statistics = Statistics(format),
                                         .checksums = {},
                                         .held = {},
                                         .arrays = std::nullopt});
  state_->checksums.resize(fields);
  state_->held.resize(fields);
  state_->create_file(state_->path);
  state_->arrays.emplace(as_output([&] { return create_arrays(state_->path, state_->contents, capacity); }));
}

ShardWriter::ShardWriter(base::FileSystem& files, Path path, const ImageFormat& format,
                         const std::vector<std::string>& columns, int64_t capacity, int64_t alignment)
    : ShardWriter(files, std::move(path), plain_contents(format, columns, alignment), capacity) {}

ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;
ShardWriter& ShardWriter::operator=(ShardWriter&&) noexcept = default;

int64_t ShardWriter::count() const { return state_->count; }

void ShardWriter::append(const FieldValues& values) {
  State& s = *state_;
  DDPM_CHECK(values.size() == s.contents.fields.size(), "{}: values of {} fields, {} are wanted", s.path.string(),
             values.size(), s.contents.fields.size());
  const auto n = static_cast<int64_t>(values[s.images].size() / s.field(s.images).bytes());
  DDPM_CHECK(n <= s.capacity - s.count, "{}: {} images after {} of {}", s.path.string(), n, s.count, s.capacity);
  for (std::size_t f = 0; f < values.size(); ++f) {
    DDPM_CHECK(values[f].size() == static_cast<std::size_t>(n) * s.field(f).bytes(), "{}: {} bytes for {} images",
               s.label(f), values[f].size(), n);
  }
  expect_storable(s.contents.fields, values, s.contents.set_mask, s.contents.first + s.count,
                  s.contents.source.empty() ? s.path.string() : s.contents.source);
  as_output([&] {
    std::size_t block = 0;
    for (std::size_t f = 0; f < values.size(); ++f) {
      if (s.field(f).is_read_in_blocks()) s.arrays->blocks[block++].write_rows(s.count, n, values[f]);
    }
  });
  for (std::size_t f = 0; f < values.size(); ++f) s.keep(f, values[f]);
  s.add_to_statistics(values, n);
  s.count += n;
}

void ShardWriter::append(std::span<const std::byte> images, const std::vector<std::span<const int64_t>>& columns) {
  FieldValues values = {images};
  for (const std::span<const int64_t> column : columns) values.push_back(std::as_bytes(column));
  append(values);
}

ShardResult ShardWriter::finish() {
  State& s = *state_;
  DDPM_CHECK(s.arrays.has_value(), "{}: a shard is finished once", s.path.string());
  return as_output([&] {
    if (s.count < s.capacity) {
      s.rewrite_exact();
    } else {
      s.write_header(*s.arrays);
      s.arrays->close();
      s.arrays.reset();
    }
    s.files.sync_file(s.path);
    s.require_written();

    ShardResult result{.info = {}, .statistics = s.statistics};
    result.info.count = s.count;
    result.info.size = s.files.file_size(s.path);
    result.info.header_size = s.header_size(result.info.size);
    result.info.sha256 = base::sha256_file(s.path);
    result.info.header_sha256 = sha256_of_prefix(s.path, result.info.header_size);
    return result;
  });
}

}  // namespace ddpm::data
