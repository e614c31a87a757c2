// Reading a dataset: a folder with dataset.json and shards, or one .h5 file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "data/dataset_options.h"
#include "data/format.h"
#include "data/image_window.h"
#include "data/order.h"

namespace ddpm::data {

/// Says something of images, not of the set: they are damaged, or hold values that are not finite. Other images may be
/// whole. A file that has changed, or cannot be read just now, is another DatasetError.
struct ImageError : base::DatasetError {
  using DatasetError::DatasetError;
};

class Dataset {
 public:
  /// Collective. One rank reads dataset.json, each shard's size and header digest are checked by one rank, then all
  /// open the shards. Everything wrong throws DatasetError's code on all ranks together (comm::AgreedError).
  /// A bare .h5 file is one shard without checksums; its attribute `layout = "NCHW"` names that axis order. One rank
  /// opens it in a child process first, since HDF5 does not survive every file; of an adopted file (data/adopt.h) all
  /// ranks compare what HDF5 will read with its digests instead. A path with * ? [ stands for all files that match it.
  static Dataset open(comm::Communicator& comm, const Path& path, const DatasetOptions& options = {});

  /// A set, and how often its images are seen beside those of others.
  struct Source {
    Path path;
    double weight = 1.0;
    std::string name = {};  ///< empty: the last part of the path
  };
  /// Opens several folders as one set, or several files, whose images follow each other. They have the same fields,
  /// transforms, class names and values that all images share; files also the same coordinates. Collective, as the
  /// other open().
  static Dataset open(comm::Communicator& comm, const std::vector<Source>& patterns,
                      const DatasetOptions& options = {});

  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;

  [[nodiscard]] const DatasetInfo& info() const;
  /// The paths of several sets are joined by " + ".
  [[nodiscard]] const Path& path() const;
  /// The last part of the path; of several sets "a, b".
  [[nodiscard]] std::string name() const;
  /// The sets that it is made of.
  [[nodiscard]] const std::vector<OrderedSet>& parts() const;
  /// The shards, or the one file.
  [[nodiscard]] const std::vector<Path>& files() const;
  [[nodiscard]] int64_t size() const { return info().count; }
  [[nodiscard]] ImageFormat image() const { return info().image(); }
  /// The fields that batches carry, the first ones of info().fields: without what is per set, and without labels if
  /// options.labels was "".
  [[nodiscard]] const std::vector<Field>& fields() const;
  /// The fields that all images share: static values, and a mask of the set.
  [[nodiscard]] const std::vector<Field>& set_fields() const;
  /// The values of one of set_fields(), channels last. The ranks of a host hold them once.
  [[nodiscard]] std::span<const std::byte> set_values(std::size_t field) const;
  /// The values of all images of one of fields() that is not read in blocks, such as parameters.
  [[nodiscard]] std::span<const std::byte> held_values(std::size_t field) const;
  /// Gives the variables of each field the transforms of the field of its role in `like`, whose variables are as many.
  /// Throws DatasetError for a grid of other sides than the field's.
  void set_transforms(const std::vector<Field>& like);
  /// Bytes that are read from the files for one image and its conditions and masks.
  [[nodiscard]] std::size_t block_bytes() const;
  /// Labels of all images, or empty: the set has none, or options.labels was "". The ranks of a host hold them once.
  [[nodiscard]] std::span<const int64_t> labels() const;
  /// Collective. The integers of an array that has one for each image, such as /condition_index; empty where a file has
  /// none of that name, which for bare files is one of options.beside. Digests of an adopted file are compared. Throws
  /// DatasetError's code on all ranks for an array of another shape or type.
  [[nodiscard]] std::vector<int64_t> integers(comm::Communicator& comm, const std::string& name) const;
  /// Number of classes: class names, or without names the largest label + 1; 0 without labels.
  [[nodiscard]] int64_t num_classes() const;
  /// num_classes() of a set that has labels; throws base::DatasetError for one that has none.
  [[nodiscard]] int64_t expect_classes() const;
  /// Whether the CRC-32C of each image is known, and checked when it is read: not of another program's .h5 file.
  [[nodiscard]] bool has_checksums() const;
  /// Whether the set is files of other programs with digests beside each (data/adopt.h), which are compared with all
  /// that is read.
  [[nodiscard]] bool is_adopted() const;
  /// Bytes that are read for one image: more than it has where it shares a chunk with others.
  [[nodiscard]] uint64_t bytes_per_read() const;
  /// SHA-256 over format, normalization, class names, labels and checksums in order: what the images are, however they
  /// are cut into shards. Of a bare .h5 file without checksums: its size in place of the checksums, and of an adopted
  /// one what `ddpm data adopt` has found.
  [[nodiscard]] const std::string& content_hash() const;

  /// Whether content_hash() tells of every byte that is read. Otherwise it tells of what is held in memory, and of the
  /// size of files whose bytes have no digest.
  [[nodiscard]] bool has_digests() const;

  /// Threads of this rank that may well read at once: those that unpack chunks; one of a folder.
  [[nodiscard]] int threads() const;
  /// How foreign files are read, as open() was told; of other sets it names no variables.
  [[nodiscard]] const DatasetOptions& reading() const;

  /// Pairs of places in files of other programs that are no images, because times are missing between the two.
  [[nodiscard]] int64_t pairs_left_out() const;

  /// Whether each axis of the images is periodic, where the files say so, as The Well's do; empty: they do not.
  [[nodiscard]] const std::vector<bool>& periodic_axes() const;

  /// Images [first, first + count), channels-last, in the stored type; `out` has exactly count · image().bytes().
  /// May cross shards, may be called from any thread, and needs no other rank. Each image's CRC-32C is checked: a
  /// mismatch throws ImageError naming file and index, and so does a float32 value that is not finite where the image's
  /// mask, if there is one, says that it counts; it is named with its channel, row and column. A file that the machine
  /// cannot read just now throws base::DatasetAccessError. Ends with expect_unchanged().
  void read_block(int64_t first, int64_t count, std::span<std::byte> out) const;

  /// read_block() without its end, for many small reads, after the last of which comes one expect_unchanged(). Until
  /// that has returned, nothing of what they gave may be used. A read that fails looks at the file itself.
  void read_unconfirmed(int64_t first, int64_t count, std::span<std::byte> out) const;

  /// Reads so many images of another one of fields() that is read in blocks, without the end of read_block().
  void read_unconfirmed(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) const;

  /// Reads as read_unconfirmed(), and takes images that hold values that are not finite.
  void read_any_values(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out) const;

  /// Reads the part of one image's such field that begins at `begin` and reaches over `extent` along the axes of its
  /// pixels, of volumes the depth first; beyond the end of an axis it goes on at the beginning. `out` has exactly as
  /// many values, channels last. What is refused of images is refused of windows. A CRC-32C is that of a whole image:
  /// the first window of an image has this rank read it whole, a few MiB at a time, and compare; from then on
  /// expect_unchanged() throws where the image's file has changed.
  void read_window_unconfirmed(std::size_t field, int64_t index, std::span<const int64_t> begin,
                               std::span<const int64_t> extent, std::span<std::byte> out) const;

  /// Room for the values of these images, in the order of fields(): [n, shape...] of each in the stored type. What is
  /// held in memory, such as labels, is there already; what is read in blocks is still to be read.
  [[nodiscard]] std::vector<std::vector<std::byte>> room_for(std::span<const int64_t> indices) const;
  /// Room for windows of them.
  [[nodiscard]] std::vector<std::vector<std::byte>> room_for(std::span<const int64_t> indices,
                                                             const ImageWindows& windows) const;

  /// Throws DatasetError unless a bare file without checksums, and each file of images of which windows were read since
  /// the last call, is still the one that was opened, by its inode, size and times: HDF5 gives zeros for what lies
  /// beyond the end of a file that has shrunk. All that was read before it returns is the opened file's, as far as the
  /// file system tells. It costs one metadata operation of the file system, which other nodes feel on a parallel one; a
  /// set whose images have checksums needs none unless windows are read.
  void expect_unchanged() const;

  /// Collective: reads all that is read in blocks, once, checked as ever, into memory that the ranks of a host hold
  /// together, and from then on from there. Throws ConfigError on all ranks where they cannot share it.
  void hold(comm::Communicator& comm);

  /// What a thread that reads keeps: with one alive, close() throws InternalError.
  [[nodiscard]] std::shared_ptr<const void> lease() const;

  /// Collective: closes the shards, which nothing reads any more, and gives back what the ranks of a host hold
  /// together; there are no labels afterwards. Without it both are left to MPI_Finalize.
  void close(comm::Communicator& comm);

 private:
  struct State;
  explicit Dataset(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ddpm::data
