// Digests beside a file of another program, which `ddpm data adopt` has made (data/adopt.h): of FILE they lie in
// FILE.ddpm. The file itself is as it was.
//
// FILE.ddpm is a line of JSON, kAdoptionTextBytes long or a multiple, and a table of three parts: runs of arrays
// (h5::DigestRun), the SHA-256 in hexadecimal of each MiB of the rest of the file, and the CRC-32C of the blocks of all
// runs. The rest is every byte that lies in no run, in order: what HDF5 itself may read. Numbers are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "comm/communicator.h"
#include "comm/shared_bytes.h"
#include "data/format.h"
#include "h5/digests.h"

namespace ddpm::data {

/// The line's length is a multiple of it, so that the table's numbers are aligned.
inline constexpr std::size_t kAdoptionTextBytes = 64;
/// Bytes of the rest of a file that have one digest.
inline constexpr uint64_t kRestPiece = uint64_t{1} << 20U;
inline constexpr std::size_t kSha256Digits = 64;

/// FILE.ddpm
Path adoption_of(const Path& file);

/// An array of an adopted file, as the sidecar lists it.
struct AdoptedArray {
  std::string name;
  uint64_t bytes = 0;            ///< in the file; 0 where HDF5 reads it, because it belongs to the rest
  bool compared_on_read = true;  ///< otherwise with the rest, whenever the file is opened
};

/// The line of JSON.
struct Adoption {
  std::string file;  ///< its name
  uint64_t size = 0;
  std::vector<AdoptedArray> arrays;
  uint64_t runs = 0;
  uint64_t pieces = 0;  ///< number of pieces of kRestPiece bytes that the rest of the file is cut into
  uint64_t digests = 0;
  std::string table_sha256;

  [[nodiscard]] uint64_t table_bytes() const;
};
std::string to_text(const Adoption& adoption);
/// Throws DatasetError "ORIGIN: ..." for anything but such a text.
Adoption parse_adoption(std::string_view text, const std::string& origin);

/// The parts of a table.
struct AdoptionTable {
  AdoptionTable(std::span<std::byte> bytes, const Adoption& adoption);
  std::span<h5::DigestRun> runs;
  std::span<char> pieces;  ///< kSha256Digits of each
  std::span<uint32_t> sums;
};

/// Things [first, last) of several.
struct Share {
  uint64_t first = 0;
  uint64_t last = 0;
};
/// The share of this rank in `count` things.
Share share_of(uint64_t count, const comm::Communicator& comm);

/// What lies in no run.
std::vector<h5::Extent> rest_of(std::span<const h5::DigestRun> runs, uint64_t file_bytes);
uint64_t pieces_of(std::span<const h5::Extent> rest);
/// The SHA-256 of these pieces of the rest, one after the other.
std::string digest_rest(const base::InputFile& file, std::span<const h5::Extent> rest, Share pieces);

/// An adopted file that ranks have open: its digests lie in memory that those of a host share.
class AdoptedFile {
 public:
  /// Collective. Nothing for a file that nobody has adopted. Otherwise compares the file's size and the digests of the
  /// rest, the ranks sharing the work: HDF5 may open the file then. Throws DatasetError's code on all ranks together.
  static std::optional<AdoptedFile> open(comm::Communicator& comm, const Path& file);

  [[nodiscard]] const Adoption& adoption() const { return adoption_; }
  /// As long as this object is not closed; it may be moved.
  [[nodiscard]] const h5::Digests& digests() const { return *digests_; }
  /// Collective.
  void close() { table_.close(); }

 private:
  AdoptedFile(comm::Communicator& comm, Adoption adoption);
  void load(comm::Communicator& comm, const Path& file, std::size_t begin);
  void compare_rest(comm::Communicator& comm, const Path& file) const;

  Adoption adoption_;
  comm::SharedBytes table_;
  std::unique_ptr<h5::Digests> digests_;
};

}  // namespace ddpm::data
