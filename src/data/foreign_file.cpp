#include "data/foreign_file.h"

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "base/binary_units.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "base/utc_text.h"
#include "data/open_file.h"
#include "h5/file.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

constexpr uint64_t kGiB = base::kGiB;

/// A file of many GiB may have millions of chunks, all of which are counted.
base::ChildLimits limits_for(const Path& path) {
  const base::FileFacts facts = base::read_as<DatasetError>([&] { return base::look_at(path); });
  const std::chrono::seconds more(facts.stamp.size / base::kGiB);
  return {.memory_bytes = kGiB,
          .processor_time = std::chrono::seconds(5) + more,
          .wall_time = std::chrono::seconds(60) + 10 * more};
}

constexpr uint64_t kCopies = 3;  // a chunk as it is stored, as it grows while it is unpacked, and as it is read
constexpr std::size_t kLargeRow = std::size_t{64} << 20U;

/// The first and the last lines of rows that are larger than a reader holds.
void read_ends_of_large(const Rows& rows) {
  std::vector<int64_t> extent = rows.shape();
  std::vector<int64_t> begin(extent.size(), 0);
  const int64_t side = std::exchange(extent.front(), 1);
  const std::size_t line_bytes = rows.row_bytes() / static_cast<std::size_t>(side);
  base::limit_memory(kGiB + kCopies * (rows.chunk_bytes() + line_bytes) + rows.row_bytes());
  std::vector<std::byte> line(line_bytes);
  rows.read_window(0, begin, extent, line);
  begin.front() = side - 1;
  rows.read_window(rows.rows() - 1, begin, extent, line);
}

/// Reads the first and the last of the rows of a field, or of an array.
template <typename R>
void read_ends(const R& rows) {
  base::limit_memory(kGiB + kCopies * (rows.chunk_bytes() + rows.row_bytes()));
  if (rows.rows() == 0) return;
  std::vector<std::byte> row(rows.row_bytes());
  rows.read_rows(0, 1, row);
  rows.read_rows(rows.rows() - 1, 1, row);
}

/// The first and the last value of an array.
void read_corners(const h5::File& file, const std::string& name) {
  try {
    const h5::Array array = file.array(name);
    if (array.rows() == 0 || array.row_bytes() == 0 || array.element() == h5::Element::other) return;
    base::limit_memory(kGiB + kCopies * array.chunk_bytes());
    std::vector<std::byte> value(h5::size_of(array.element()));
    std::vector<int64_t> place(array.shape().size() - 1, 0);
    const std::vector<int64_t> one(place.size(), 1);
    array.read_window(0, place, one, value);
    for (std::size_t axis = 0; axis < place.size(); ++axis) place[axis] = array.shape()[axis + 1] - 1;
    array.read_window(array.rows() - 1, place, one, value);
  } catch (const DatasetError&) {
    return;  // the reader would refuse it with as much
  }
}

/// NetCDF's older formats are no HDF5.
void expect_no_classic_netcdf(const Path& path) {
  constexpr std::string_view kSign = "CDF";
  std::string begin(kSign.size(), '\0');
  base::read_as<DatasetError>([&] {
    const base::InputFile file(path);
    static_cast<void>(file.read_up_to(0, std::as_writable_bytes(std::span(begin))));
  });
  if (begin != kSign) return;
  throw DatasetError("{}: it is NetCDF of the classic format; NetCDF-4 is read: `nccopy -k nc4 {} NEW.nc` makes it so",
                     path.string(), path.string());
}

void try_in_child(const Path& path, const std::function<void()>& work) {
  expect_no_classic_netcdf(path);
  const std::string end = h5::try_in_child(limits_for(path), work);
  if (end.empty()) return;
  throw DatasetError(
      "{}: the child process in which HDF5 opened it, to see whether it survives the file, {}; a file that is not "
      "damaged is wanted",
      path.string(), end);
}

}  // namespace

void try_foreign_file(const Path& path, const DatasetOptions& options) {
  try_in_child(path, [&] {
    const h5::File file = h5::File::open(path);
    const BareFile bare = open_file(file, options);
    for (const auto& rows : bare.rows) {
      if (rows->row_bytes() > kLargeRow && !rows->shape().empty()) {
        read_ends_of_large(*rows);
      } else {
        read_ends(*rows);
      }
    }
    if (bare.checksums) read_ends(*bare.checksums);
    for (const std::string& name : options.beside) read_corners(file, name);
  });
}

void try_all_arrays(const Path& path) {
  try_in_child(path, [&] {
    const h5::File file = h5::File::open(path);
    for (const std::string& name : file.array_names()) read_corners(file, name);
  });
}

OpenedFile OpenedFile::of(const Path& path) {
  OpenedFile file;
  file.facts_ = base::read_as<DatasetError>([&] { return base::look_at(path); });
  if (file.facts_.kind == base::FileKind::absent) throw DatasetError("{}: there is no such file", path.string());
  if (file.facts_.kind != base::FileKind::regular) {
    throw DatasetError("{}: it is a {}; a regular file is wanted", path.string(),
                       file.facts_.kind == base::FileKind::folder ? "folder" : "pipe or device");
  }
  return file;
}

void OpenedFile::expect_unchanged(const Path& path) const {
  const OpenedFile now = of(path);
  const bool same = now.facts_.identity == facts_.identity;
  if (same && now.facts_.stamp == facts_.stamp) return;
  throw DatasetError("{}: {} since it was opened: it has {}, and had {}", path.string(),
                     same ? "it was changed" : "another file has taken its place", now.text(), text());
}

void OpenedFile::expect_like(const Path& path, const std::string& seen) const {
  if (text() == seen) return;
  throw DatasetError("{}: it was changed while it was opened: it has {}, and had {}", path.string(), text(), seen);
}

std::string OpenedFile::text() const {
  const base::FileStamp& stamp = facts_.stamp;
  return fmt::format("{} bytes, changed {}", stamp.size, base::utc_text_ns(stamp.seconds, stamp.nanoseconds));
}

}  // namespace ddpm::data
