// HDF5 files and arrays: RAII over the C API, with the library's error stack turned into one line.
//
// Only one thread is inside HDF5 at a time: every function takes a mutex that all of src/h5 shares, because the library
// keeps global state and its parallel build is not thread-safe. No lock of the file system is taken: files are opened
// read-only, or are temporary files of one writer, and locks fail on some network file systems.
//
// Failures throw base::DatasetError: the path, what was being done, and HDF5's own reason. A failure of the machine,
// which says nothing of the file, is a base::DatasetAccessError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/input_file.h"
#include "base/quiet_file.h"
#include "comm/communicator.h"
#include "h5/child.h"
#include "h5/digests.h"
#include "h5/handle.h"

namespace ddpm::h5 {

class ChunkReader;
class ChunkRing;
class LazyFile;
class PlainRows;
struct BoxCopy;
using base::Path;

/// What an attribute holds: numbers, truth values as 0 and 1, or texts. Without any it is empty.
struct Attribute {
  Element element = Element::other;  ///< type of the numbers, as the file stores them
  std::vector<double> numbers = {};
  std::vector<uint64_t> words = {};  ///< the same for integers, exactly: the bits of int64 where they are signed
  std::vector<std::string> texts = {};
};

/// Where the values of an array lie in its file in one piece, and whether the bytes of each are the other way round in
/// memory.
struct PlainPlace {
  uint64_t offset = 0;
  bool turned = false;
};

/// What names an axis of an array: another array of the file.
struct DimensionScale {
  std::string name = {};  ///< absolute; "": none is attached
  int64_t extent = 0;     ///< length of its axis; where it has no values, the largest of those that it names
};

/// An array in a file; a number without axes is an array of one. Its first axis counts rows (images, labels); rows are
/// read and written in ranges.
class Array {
 public:
  /// An array whose place another process has found, by plain_place(): this one reads it without a look at the file's
  /// metadata, and opens the file with the first read.
  static Array placed(const Path& path, const std::string& name, std::vector<int64_t> shape, Element element,
                      const PlainPlace& place);
  Array(Array&&) noexcept;
  Array& operator=(Array&&) noexcept;
  ~Array();
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  [[nodiscard]] Element element() const { return element_; }
  [[nodiscard]] int64_t rows() const { return shape_.front(); }
  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }
  /// "FILE:/name", for messages.
  [[nodiscard]] const std::string& label() const { return label_; }

  /// Rows [first, first + n) in the stored type and the processor's byte order; `out` has exactly n · row_bytes().
  /// Independent: needs no other rank. Chunks are fetched and unpacked without HDF5 where their form is known (gzip,
  /// shuffle, Fletcher-32, LZ4, Zstandard, bitshuffle, none); those used last are kept.
  void read_rows(int64_t first, int64_t n, std::span<std::byte> out) const;
  /// A part of one row: along each axis but the first one `extent` elements from `begin` on, in the stored type and the
  /// processor's byte order; `out` has exactly as many bytes. What reaches beyond the end of an axis goes on at its
  /// beginning. Independent, as read_rows(). Only the bytes of the window are read, or those of the chunks with some of
  /// it, and what lies between near ones.
  void read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                   std::span<std::byte> out) const;
  /// Reads windows as read_window() does, of rows [first, first + n): `begin` and `extent` are along all axes, that of
  /// the rows first, whose end is not passed.
  void read_windows(std::span<const int64_t> begin, std::span<const int64_t> extent, std::span<std::byte> out) const;
  /// Reads rows [first, first + n) of any integer type as int64; `out` has n · (elements per row). Throws for a uint64
  /// that int64 cannot hold.
  void read_integers(int64_t first, int64_t n, std::span<int64_t> out) const;
  void write_rows(int64_t first, int64_t n, std::span<const std::byte> in);

  /// A string attribute of the array; absent when there is none of that name, and an error when it is not a string.
  [[nodiscard]] std::optional<std::string> attribute(const std::string& name) const;
  /// An attribute of any plain type; absent when there is none of that name.
  [[nodiscard]] std::optional<Attribute> find_attribute(const std::string& name) const;
  /// The first dimension scale that is attached to each axis.
  [[nodiscard]] std::vector<DimensionScale> scales() const;
  /// Whether the writer of the array has set a value for elements that were never written: another one than zero, or
  /// one that the attribute `_FillValue` tells.
  [[nodiscard]] bool has_fill() const { return !fill_.empty(); }
  /// Fills `out` with that value, in the processor's byte order.
  void fill(std::span<std::byte> out) const;
  void set_attribute(const std::string& name, const std::string& value);

  /// Bytes of one chunk before compression; 0 for an array that is not stored in chunks.
  [[nodiscard]] uint64_t chunk_bytes() const;
  /// Where the rows lie in the file, for contiguous and unfiltered data only; absent otherwise, and for an array
  /// without rows.
  [[nodiscard]] std::optional<uint64_t> file_offset() const;
  /// The place of an array that is read without HDF5 and has no chunks; absent of others, and of one without rows.
  [[nodiscard]] std::optional<PlainPlace> plain_place() const;
  /// Where the values lie in the file, if they are read without HDF5: the chunks in the order of their numbers, which
  /// are empty where they were never written, or one extent of an array without. Empty where HDF5 reads them.
  [[nodiscard]] std::vector<Extent> extents() const;
  void close();

 private:
  friend class File;
  Array(std::string label, std::vector<int64_t> shape, Element element);
  /// `file` is the one that is written; null of arrays that are read.
  Array(Handle handle, std::string label, std::shared_ptr<base::QuietFile> file);
  void require_rows(int64_t first, int64_t n) const;
  /// Selects the rows in space_ and returns a memory space of as many elements; checks the range.
  [[nodiscard]] Handle select(int64_t first, int64_t n) const;
  [[nodiscard]] std::size_t row_elements() const;
  void read(int64_t first, int64_t n, Element memory, void* out) const;
  void read_box(const BoxCopy& copy, std::span<const uint64_t> target, std::span<std::byte> out) const;
  /// What read() does where plain_ or chunks_ read.
  void read_without_hdf5(int64_t first, int64_t n, Element memory, void* out) const;
  /// Has values read without HDF5 from `file`, which lies at `path`, where that is possible, and compared with
  /// `digests` where these have some. When the machine fails, MPI-IO may report a read that gave nothing as a success
  /// (Open MPI's does), and HDF5 then returns zeros; of a window HDF5 reads 64 KiB for each line. Refuses filters that
  /// HDF5 does not bring where it has to read.
  void read_itself(const Path& path, const std::shared_ptr<LazyFile>& file, const Digests* digests, int threads);

  Handle handle_;
  Handle space_;  // the array's dataspace in the file; its selection changes with each transfer
  std::string label_;
  std::vector<int64_t> shape_;
  Element element_ = Element::other;
  std::size_t row_bytes_ = 0;
  std::shared_ptr<base::QuietFile> file_;  // null where the array is read
  bool compared_ = false;
  std::vector<std::byte> fill_;

  std::unique_ptr<PlainRows> plain_;  // both null: HDF5 reads
  std::unique_ptr<ChunkReader> chunks_;
};

class File {
 public:
  struct CreateOptions {
    uint64_t alignment = 4096;  ///< arrays of at least `align_from` bytes start on multiples of this
    uint64_t align_from = 4096;
    /// HDF5's metadata lies in blocks of this size, the first of them at the beginning; 0: HDF5's own choice (2048).
    uint64_t metadata_block = 0;
  };

  /// Opens read-only, for this process alone. Contiguous arrays that need no conversion are read without HDF5.
  static File open(const Path& path);
  /// Collective: opens each path read-only through MPI-IO, or plainly where there is one rank only. Later reads are
  /// independent. All ranks throw together.
  static std::vector<File> open_parallel(comm::Communicator& comm, std::span<const Path> paths);
  /// Writes a new HDF5 file over `path`, a file that base::FileSystem has created. Its bytes depend on what is written
  /// only (no time stamps). A write that fails throws from the call in which HDF5 makes it, which may be close().
  static File create(const Path& path, const CreateOptions& options);

  File(File&&) noexcept = default;
  File& operator=(File&&) = delete;
  /// A file opened with open_parallel and not closed is left to MPI_Finalize, where HDF5 closes it: closing is
  /// collective, and a destructor must not be.
  ~File();

  [[nodiscard]] const Path& path() const { return path_; }
  /// Whether an object of this absolute name ("/images") exists; collective on a parallel file.
  [[nodiscard]] bool contains(const std::string& name) const;
  /// An attribute of a group or an array; absent when there is none, or no such object. Collective on a parallel file.
  [[nodiscard]] std::optional<Attribute> find_attribute(const std::string& object, const std::string& name) const;
  /// The names in a group, in bytewise order; none when there is no such group. Soft and external links are left out.
  /// Collective on a parallel file.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& group) const;
  /// Opens an array; collective on a parallel file. Refuses soft, external and user-defined links on the
  /// way, external and virtual storage, filters that neither HDF5 brings nor Array undoes, chunks above 1 GiB, shapes
  /// that overflow, and arrays of which parts were never written, unless has_fill().
  [[nodiscard]] Array array(const std::string& name) const;
  /// Does work that needs no other rank, between collective calls. Of a parallel file what it throws is kept, and this
  /// rank goes on with the calls that the others make, which would wait for it. array() opens arrays in this way.
  void alone(const std::function<void()>& work) const;
  /// Throws what alone() kept first: after the collective calls, and before ranks agree.
  void expect_no_failure() const;
  /// Absolute names of all arrays that are reached without soft, external and user-defined links, each once. For a file
  /// that this process alone has open.
  [[nodiscard]] std::vector<std::string> array_names() const;
  /// Has the values of arrays that are opened afterwards compared with `digests`, which live longer than the file and
  /// its arrays, whenever they are read.
  void compare_with(const Digests& digests) { digests_ = &digests; }
  /// Whether all that is read of the arrays that were opened so far is compared with digests: HDF5 reads none of them.
  [[nodiscard]] bool all_compared() const { return all_compared_; }
  /// Has chunks of arrays that are opened afterwards unpacked by as many threads.
  void unpack_with(int threads) { threads_ = threads; }
  /// Has them kept in `ring`, which lives longer than the file's arrays; `number` tells the file from others that use
  /// it.
  void share_chunks(ChunkRing& ring, uint64_t number) {
    ring_ = &ring;
    ring_number_ = number;
  }
  /// A contiguous array, its space allocated at once.
  Array create_array(const std::string& name, Element element, std::span<const int64_t> shape);
  /// Writes out and closes; collective on a parallel file. Datasets of this file must be closed or destroyed before.
  void close();

 private:
  enum class Mode : uint8_t { read, parallel_read, write };
  File(Handle handle, Path path, Mode mode);
  [[nodiscard]] bool parallel() const { return mode_ == Mode::parallel_read; }

  Handle handle_;
  Path path_;
  Mode mode_ = Mode::read;
  std::shared_ptr<base::QuietFile> written_;  // null of files that are read
  std::shared_ptr<LazyFile> read_;            // by arrays that do without HDF5
  const Digests* digests_ = nullptr;
  int threads_ = 1;
  ChunkRing* ring_ = nullptr;
  uint64_t ring_number_ = 0;
  mutable bool all_compared_ = true;
  mutable std::exception_ptr failure_;  // the first one of alone()
};

}  // namespace ddpm::h5
