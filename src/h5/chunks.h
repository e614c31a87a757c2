// Inside src/h5 only: the values of a chunked array without HDF5, which only says once where the chunks lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "h5/box.h"
#include "h5/chunk_cache.h"
#include "h5/chunk_ring.h"
#include "h5/digests.h"
#include "h5/filters.h"
#include "h5/lazy_file.h"

namespace ddpm::h5 {

/// A chunk in the file.
struct ChunkPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;    ///< as stored; 0: it was never written
  uint32_t skipped = 0;  ///< the filters that were not applied to it, a bit for each
};

/// How a chunked array is stored.
struct ChunkLayout {
  std::vector<uint64_t> shape = {};
  std::vector<uint64_t> chunk = {};  ///< extents of a chunk, of as many axes
  std::size_t element_bytes = 0;
  bool turned = false;  ///< whether the bytes of an element lie the other way round in memory
  std::vector<Filter> filters = {};
  std::vector<ChunkPlace> places = {};  ///< where each chunk lies, the last axis running fastest
  std::vector<std::byte> fill = {};     ///< an element of chunks that were never written; empty: all were written
};

/// Number of chunks along an axis.
[[nodiscard]] inline uint64_t chunks_along(uint64_t extent, uint64_t chunk) { return (extent + chunk - 1) / chunk; }

/// Reads rows and boxes of a chunked array. Neighbouring chunks are fetched by one read, and several threads unpack
/// them, up to 128 MiB at a time; a chunk that is some of the wanted bytes as they are is unpacked where it is wanted.
/// A single long run of bytes of a chunk without filters and digests is read without the rest. Other chunks of which a
/// part was wanted are kept: in a ring that ranks share, or those of a band of rows, up to 64 MiB. Callers that want a
/// single chunk each, of which nothing is to be kept here, unpack them at the same time; others take turns.
class ChunkReader {
 public:
  /// `label` is for messages. All extents are positive, and the chunks' bytes fit into an int64. Chunks are compared
  /// with `digests`, which live longer, before they are unpacked, where these are not null.
  ChunkReader(std::shared_ptr<LazyFile> file, std::string label, ChunkLayout layout, const Digests* digests,
              std::size_t threads);
  /// Keeps chunks in `ring`, which lives longer, under keys that begin with the number of the file.
  void share(ChunkRing& ring, uint64_t file);

  /// Reads as Array::read_rows() does. Throws DatasetError for chunks that are damaged, and its DatasetAccessError when
  /// the machine fails.
  void read_rows(uint64_t first, uint64_t n, std::span<std::byte> out);
  /// Reads a box to its place in `out`, an array of the shape `target`: only chunks that have some of it are fetched.
  void read_box(const BoxCopy& copy, std::span<const uint64_t> target, std::span<std::byte> out);
  /// Where the chunks lie in the file, in the order of their numbers.
  [[nodiscard]] std::vector<Extent> extents() const;

 private:
  /// A chunk, and what is wanted of it.
  struct Wanted {
    uint64_t number = 0;
    std::vector<Line> lines = {};      // from the chunk's first byte to the target's
    bool in_part = false;              // it has values that are not wanted
    std::span<std::byte> values = {};  // where it is unpacked to
    std::vector<std::byte> room = {};  // that memory, of a chunk that is kept
    std::span<std::byte> stored = {};  // as it lies in the file
  };
  /// What a thread unpacks with.
  struct Worker {
    Worker(const std::vector<Filter>& filters, std::size_t chunk_bytes) : decoder(filters, chunk_bytes) {}
    ChunkDecoder decoder;
    std::vector<std::byte> room = {};  // for a chunk of which nothing is kept
  };
  [[nodiscard]] Wanted wanted_of(std::span<const uint64_t> place, const BoxCopy& copy,
                                 std::span<const uint64_t> target) const;
  /// Whether it lies in the file as it is wanted.
  [[nodiscard]] bool is_plain(const Wanted& wanted) const;
  /// Whether what is wanted of it is a run of its bytes as they lie in the file.
  [[nodiscard]] bool is_straight(const Wanted& wanted) const;
  /// Reads those bytes, and no others of the chunk, to their place.
  void read_straight(const Wanted& wanted, std::span<std::byte> out);
  /// Gives what needs nothing of other chunks and keeps nothing: a chunk that was never written, or straight bytes.
  /// False for others.
  bool read_at_once(const Wanted& wanted, std::span<std::byte> out);
  /// What one caller at a time unpacks with.
  struct Tools {
    std::deque<Worker> workers = {};     // one for each thread
    std::vector<std::byte> stored = {};  // chunks as they lie in the file
  };
  /// Fetches and unpacks some chunks, and copies what is wanted of them.
  void load(std::span<Wanted> group, std::span<std::byte> out, Tools& tools);
  /// Loads one chunk of which nothing is kept, beside other callers.
  void load_alone(Wanted wanted, std::span<std::byte> out);
  /// Copies what is wanted of a chunk that is kept; false where it is not.
  bool find_kept(const Wanted& wanted, std::span<std::byte> out);
  /// How many are fetched together.
  [[nodiscard]] std::size_t group_chunks() const;
  [[nodiscard]] ChunkKey ring_key(const Wanted& wanted) const;
  void fetch(std::span<Wanted> group, std::vector<std::byte>& stored);
  /// Has reads fetch several neighbouring chunks each into `stored`.
  void fetch_packed(std::span<Wanted*> group, std::vector<std::byte>& stored);
  void unpack(Wanted& wanted, Worker& worker, std::span<std::byte> out) const;

  std::shared_ptr<LazyFile> file_;
  std::string label_;
  ChunkLayout layout_;
  std::size_t chunk_bytes_;
  const Digests* digests_;
  std::mutex turn_;  // held by a caller that uses `tools_` and `kept_`
  Tools tools_;
  ChunkCache kept_;
  std::mutex mutex_;                                // guards spare_
  std::vector<std::unique_ptr<Tools>> spare_ = {};  // tools that callers who load one chunk take, and put back
  ChunkRing* ring_ = nullptr;
  uint64_t ring_file_ = 0;
};

}  // namespace ddpm::h5
