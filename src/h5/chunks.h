// Inside src/h5 only: the values of a chunked array without HDF5, which only says once where the chunks lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/input_file.h"
#include "h5/box.h"
#include "h5/filters.h"

namespace ddpm::h5 {

/// A chunk in the file.
struct ChunkPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;    ///< as stored; 0: not known
  uint32_t skipped = 0;  ///< the filters that were not applied to it, a bit for each
};

/// How a chunked array is stored.
struct ChunkLayout {
  std::vector<uint64_t> shape = {};
  std::vector<uint64_t> chunk = {};  ///< extents of a chunk, of as many axes
  std::size_t element_bytes = 0;
  bool turned = false;  ///< whether the bytes of an element lie the other way round in memory
  std::vector<Filter> filters = {};
  std::vector<ChunkPlace> places = {};  ///< of all chunks, the last axis running fastest
};

/// Number of chunks along an axis.
[[nodiscard]] inline uint64_t chunks_along(uint64_t extent, uint64_t chunk) { return (extent + chunk - 1) / chunk; }

/// Reads rows and boxes of a chunked array. The chunks used last are kept: those of a band of rows, up to 64 MiB; a
/// chunk that is some of the wanted bytes as they are is unpacked where it is wanted. Threads take turns.
class ChunkReader {
 public:
  /// `label` is for messages. All extents are positive, and the chunks' bytes fit into an int64.
  ChunkReader(base::Path path, std::string label, ChunkLayout layout);

  /// As Dataset::read_rows. Throws DatasetError for chunks that are damaged, and its DatasetAccessError when the
  /// machine fails.
  void read_rows(uint64_t first, uint64_t n, std::span<std::byte> out);
  /// Reads a box to its place in `out`, an array of the shape `target`: only chunks that have some of it are fetched.
  void read_box(const BoxCopy& copy, std::span<const uint64_t> target, std::span<std::byte> out);

 private:
  struct Kept {
    uint64_t number = 0;
    std::vector<std::byte> values = {};
  };
  /// The values of chunk `number`, which stay until the next call.
  const std::vector<std::byte>& chunk(uint64_t number);
  /// Fetches chunk `number`, whose values fill `values`.
  void load(uint64_t number, std::span<std::byte> values);
  /// The lines of `copy` that the chunk at `begin` has, from the chunk's first byte on.
  [[nodiscard]] std::vector<Line> lines_in(std::span<const uint64_t> begin, const BoxCopy& copy,
                                           std::span<const uint64_t> target) const;

  base::Path path_;
  std::string label_;
  ChunkLayout layout_;
  std::size_t chunk_bytes_;
  std::size_t most_kept_;
  ChunkDecoder decoder_;
  std::mutex mutex_;
  std::optional<base::InputFile> file_;                  // opened by the first read
  std::vector<std::byte> stored_;                        // a chunk as it lies in the file
  std::list<Kept> kept_;                                 // the one used last comes first
  std::map<uint64_t, std::list<Kept>::iterator> found_;  // by number
};

}  // namespace ddpm::h5
