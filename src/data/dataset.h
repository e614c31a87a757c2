// Reading a dataset: a folder with dataset.json and shards, or one .h5 file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "data/format.h"

namespace ddpm::data {

struct DatasetOptions {
  std::string images = "/images";  ///< name of the array in a bare .h5 file
  std::string labels = "/labels";  ///< "": read no labels
};

class Dataset {
 public:
  /// Collective. One rank reads dataset.json, each shard's size and header digest are checked by one rank, then all
  /// open the shards. Everything wrong throws DatasetError's code on all ranks together (comm::AgreedError).
  /// A bare .h5 file is one shard without checksums; its attribute `layout = "NCHW"` names that axis order. One rank
  /// opens it in a child process first, since HDF5 does not survive every file.
  static Dataset open(comm::Communicator& comm, const Path& path, const DatasetOptions& options = {});

  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;

  [[nodiscard]] const DatasetInfo& info() const;
  [[nodiscard]] const Path& path() const;
  [[nodiscard]] int64_t size() const { return info().count; }
  [[nodiscard]] const ImageFormat& image() const { return info().image; }
  /// Labels of all images, or empty: the set has none, or options.labels was "".
  [[nodiscard]] std::span<const int64_t> labels() const;
  /// Number of classes: class names, or without names the largest label + 1; 0 without labels.
  [[nodiscard]] int64_t num_classes() const;
  /// Whether the CRC-32C of each image is known, and checked when it is read: not of another program's .h5 file.
  [[nodiscard]] bool has_checksums() const;
  /// SHA-256 over format, normalization, class names, labels and checksums in order: what the images are, however they
  /// are cut into shards. Of a bare .h5 file without checksums: its size in place of the checksums.
  [[nodiscard]] const std::string& content_hash() const;

  /// Images [first, first + count), channels-last, in the stored type; `out` has exactly count · image().bytes().
  /// May cross shards, may be called from any thread, and needs no other rank. Each image's CRC-32C is checked: a
  /// mismatch throws DatasetError naming file and index, and so does a float32 value that is not finite, which is named
  /// with its channel, row and column. A bare file that is no longer the one that was opened, by its size and times,
  /// throws DatasetError, too.
  void read_block(int64_t first, int64_t count, std::span<std::byte> out) const;

  /// Collective: closes the shards. Without it they are closed in MPI_Finalize.
  void close(comm::Communicator& comm);

 private:
  struct State;
  explicit Dataset(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ddpm::data
