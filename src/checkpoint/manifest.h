// MANIFEST.json: what a checkpoint consists of. A checkpoint folder without a valid one is not a checkpoint.
//
//   {"format": 1, "step": 1000, "world": 4, "config_hash": "…", "dataset_hash": "…",
//    "state": {"images_seen": 64000, …},
//    "files": [{"name": "shard-00000-of-00004.safetensors", "size": 123456, "sha256": "…"}, …],
//    "tensors": [{"name": "model/conv_in.weight", "dtype": "F32", "shape": [64, 3, 3, 3],
//                 "slices": [{"file": "shard-00000-of-00004.safetensors", "entry": "model/conv_in.weight",
//                             "box": [[0, 64], [0, 3], [0, 3], [0, 3]], "flat": [0, 1728]}]}, …],
//    "sha256": "…"}
//
// The last field is the SHA-256 of all bytes of the file before that field's name. Every later format ends so, too: it
// tells an older program that what it does not know is not damage. Errors: base::OutputError.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/slice.h"

namespace ddpm::checkpoint {

inline constexpr int64_t kManifestFormat = 1;
inline constexpr const char* kManifestName = "MANIFEST.json";
/// A longer file is not read.
inline constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 31U;

/// What the JSON of a manifest of so many bytes may hold. The values grow with the size: a slice of a convolution's
/// weight has 19 in about 180 bytes. 2 billion parameters with two moments and one average are about 5 million slices
/// on 1024 ranks (ZeRO stage 1 or 2, the default of parallel.bucket_mib): 90 million values in 0.8 GiB.
[[nodiscard]] base::JsonLimits manifest_limits(uint64_t bytes);

/// A manifest that is as it was written, since its checksum matches, and that has a format or a key which this program
/// does not know.
struct NewerFormatError : base::OutputError {
  using OutputError::OutputError;
};

struct ManifestFile {
  std::string name;  ///< inside the checkpoint folder; no separators
  uint64_t size = 0;
  std::string sha256;
};

/// A stored slice: `entry` of the safetensors file `file`.
struct ManifestSlice {
  std::string file;
  std::string entry;
  Box box;
  layout::Range flat;
};

struct ManifestTensor {
  std::string name;
  base::DType dtype = base::DType::f32;
  std::vector<int64_t> shape;
  std::vector<ManifestSlice> slices;

  /// Slice i in the form that copy_intersection takes.
  [[nodiscard]] TensorSlice slice(std::size_t i) const;
};

struct Manifest {
  int64_t step = 0;
  int64_t world_size = 1;  ///< ranks that wrote it
  std::string config_hash;
  std::string dataset_hash;
  base::Json state = base::Json::object();  ///< scalars only: counters, loss scale, seed ...
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;  ///< sorted by name

  /// The tensor of that name, or null.
  [[nodiscard]] const ManifestTensor* find(std::string_view name) const;
};

/// The file's text, closing checksum included.
std::string to_text(const Manifest& manifest);

/// Parses and checks: checksum, types, known fields only, plain file names, each tensor covered exactly once, each
/// slice in a listed file. `origin` (a path) begins each error message. Throws NewerFormatError for a format and for
/// keys that are not known.
Manifest parse_manifest(std::string_view text, const std::string& origin);

/// Parses what one rank contributes, which has a tensor entry for each of its slices. It makes the checks of
/// parse_manifest(), apart from those across tensors.
Manifest parse_contribution(std::string_view text, const std::string& origin);

}  // namespace ddpm::checkpoint
