// Reads any slices of a checkpoint's tensors on one rank, however the checkpoint was cut into shards. No communication.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace ddpm::checkpoint {

/// Throws what SliceReader::read would throw when a tensor of one of these slices is missing or is another one.
void expect_tensors(const Checkpoint& checkpoint, std::span<const TensorSlice> slices);

/// Throws base::OutputError when a file that this rank has compared with its checksum has changed since. One that an
/// active run has removed holds what it held, to those who have it open.
void expect_unchanged(const Checkpoint& checkpoint);

/// Reads an opened checkpoint, whose files matched their checksums then. Keeps some of its files open between calls.
class SliceReader {
 public:
  explicit SliceReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  /// Fills `wanted`, reading only what it has in common with the stored slices: just those bytes where both are ranges
  /// of one box or of whole rows, and otherwise the whole of each stored slice that has some of them. Throws
  /// OutputError when a tensor is missing or has another dtype or global shape.
  void read(std::span<const WantedSlice> wanted);

 private:
  const SafetensorsFile& file(const std::string& name);

  const Checkpoint& checkpoint_;
  std::map<std::string, SafetensorsFile> open_;
};

}  // namespace ddpm::checkpoint
