// Inside src/h5 only: what HDF5's filters did to a chunk is undone here, without HDF5: by libdeflate, LZ4 and
// Zstandard, at their speed and on the calling thread. The bytes may come from anyone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct libdeflate_decompressor;

namespace ddpm::h5 {

/// A step of the pipeline through which an array's chunks were written.
struct Filter {
  int id = 0;                         ///< HDF5's number of it
  std::vector<unsigned> values = {};  ///< its parameters
};

/// Whether ChunkDecoder knows the filter and its parameters.
[[nodiscard]] bool can_undo(const Filter& filter);
/// Whether it knows them all, and can tell how many bytes each step gives: of two codecs after each other it cannot.
[[nodiscard]] bool can_undo_all(const std::vector<Filter>& filters);
/// "32001 (Blosc)"; the number alone where we know no name.
std::string name_of_filter(int id);

/// Undoes an array's filters, chunk by chunk. For one thread at a time.
class ChunkDecoder {
 public:
  /// Takes filters that can_undo_all() accepts, in the order in which they were applied, and the bytes of a whole
  /// chunk.
  ChunkDecoder(std::vector<Filter> filters, std::size_t chunk_bytes);
  ~ChunkDecoder();
  ChunkDecoder(const ChunkDecoder&) = delete;
  ChunkDecoder& operator=(const ChunkDecoder&) = delete;

  /// Turns the stored bytes of a chunk into its values: `out` has as many bytes as a chunk, and lies elsewhere. Bit i
  /// of `skipped`: filter i was not applied to it. Throws DatasetError "SUBJECT: ..." for bytes that the filters cannot
  /// have written, without memory beyond a chunk's; `out` may then hold anything.
  void decode(uint32_t skipped, std::string_view subject, std::span<const std::byte> data, std::span<std::byte> out);

 private:
  /// Undoes one filter other than checksums. Returns what is wrong, or "".
  std::string undo(const Filter& filter, std::span<const std::byte> data, std::span<std::byte> out);
  std::string unpack_gzip(std::span<const std::byte> data, std::span<std::byte> out);

  struct Release {
    void operator()(libdeflate_decompressor* decompressor) const;
  };
  std::vector<Filter> filters_;
  std::size_t chunk_bytes_;
  std::unique_ptr<libdeflate_decompressor, Release> gzip_;
  std::array<std::vector<std::byte>, 2> steps_;  // results of all steps but the last, in turns
};

}  // namespace ddpm::h5
