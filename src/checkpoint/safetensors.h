// The safetensors format: 8 bytes header length (little endian), a JSON header, then the tensors' bytes.
//
// Layout: https://github.com/huggingface/safetensors#format. Files come from anywhere, so the parser is strict: a
// capped header, no duplicate names, sizes that match dtype and shape, and data that is covered without gap, overlap or
// a byte too many. Errors: base::OutputError (exit code 4) with the file's path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file_system.h"
#include "base/input_file.h"

namespace ddpm::checkpoint {

/// Headers longer than this are refused, as the reference implementation does.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// The optional `__metadata__` of a file: strings by name.
using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
  std::string name;
  base::DType dtype = base::DType::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< first byte, counted from the end of the header
  uint64_t end = 0;
  [[nodiscard]] uint64_t size() const { return end - begin; }
};

struct SafetensorsHeader {
  SafetensorsMetadata metadata;
  std::vector<SafetensorsEntry> entries;  ///< in order of their bytes
  std::vector<std::size_t> by_name;       ///< places in `entries`, in order of their names
  /// The entry of that name, or null.
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;
};

/// Parses the JSON header of a file with `data_bytes` bytes behind it. `origin` (a path) begins each error message.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& origin);

/// A file open for reading, header parsed and checked against the file's size. For one thread at a time.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const base::Path& path);

  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  [[nodiscard]] const base::Path& path() const { return file_.path(); }
  /// Bytes [first, first + out.size()) of the entry.
  void read(const SafetensorsEntry& entry, std::span<std::byte> out, uint64_t first = 0) const;

 private:
  base::InputFile file_;
  uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
};

/// A tensor to write: `bytes` holds its row-major elements.
struct SafetensorsTensor {
  std::string name;
  base::DType dtype = base::DType::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Size and SHA-256 of a file, taken from the bytes as they were written.
struct FileDigest {
  uint64_t size = 0;
  std::string sha256;
};

/// Writes all tensors, widest dtype first and then by name, so that each is aligned to its element size; the header is
/// padded with spaces to a multiple of 8 bytes. Neither syncs nor closes the file.
FileDigest write_safetensors(base::WritableFile& file, std::span<const SafetensorsTensor> tensors,
                             const SafetensorsMetadata& metadata = {});

/// Fills `out` with the bytes of `tensors[tensor]` from byte `first` on.
using SafetensorsSource = std::function<void(std::size_t tensor, uint64_t first, std::span<std::byte> out)>;

/// Writes tensors whose `bytes` are empty: `source` provides them during the writing, in pieces of whole elements and
/// of a few MiB at most.
FileDigest write_safetensors(base::WritableFile& file, std::span<const SafetensorsTensor> tensors,
                             const SafetensorsSource& source, const SafetensorsMetadata& metadata = {});

}  // namespace ddpm::checkpoint
