// How parallel/gather.h's operator is cut into launches: plain arithmetic, which tests on the CPU share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddpm::parallel::cuda {

inline constexpr int kGatherThreads = 256;
inline constexpr int64_t kGatherChunk = 4096;  ///< elements of a block
inline constexpr int kGatherVector = 4;        ///< elements of a thread at a time: 16 bytes of float32
/// The kernel's arguments have to fit into 4 KiB.
inline constexpr int kMaxGathered = 96;

enum class GatherType : uint8_t { float32, bfloat16, float16 };

struct GatherPiece {
  const void* from;
  float* into;
  int64_t size;
};

struct GatherBatch {
  GatherPiece pieces[kMaxGathered];
  int64_t first_chunk[kMaxGathered];  ///< chunks of the pieces before
  int64_t chunks;                     ///< the grid
  int32_t count;
  GatherType types[kMaxGathered];  ///< types of what the pieces' `from` point to
  bool aligned[kMaxGathered];      ///< whether both pointers are, for vectors
  bool add;
};
static_assert(sizeof(GatherBatch) <= 4096);

/// Without empty pieces; each batch is a launch.
inline std::vector<GatherBatch> gather_batches(std::span<const GatherPiece> pieces, std::span<const GatherType> types,
                                               bool add) {
  std::vector<GatherBatch> batches;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const GatherPiece& piece = pieces[i];
    if (piece.size == 0) continue;
    if (batches.empty() || batches.back().count == kMaxGathered) batches.emplace_back();
    GatherBatch& batch = batches.back();
    batch.add = add;
    const int64_t bytes = types[i] == GatherType::float32 ? 4 : 2;
    batch.pieces[batch.count] = piece;
    batch.types[batch.count] = types[i];
    batch.aligned[batch.count] =
        reinterpret_cast<std::uintptr_t>(piece.from) % static_cast<std::uintptr_t>(bytes * kGatherVector) == 0 &&
        reinterpret_cast<std::uintptr_t>(piece.into) % (sizeof(float) * kGatherVector) == 0;
    batch.first_chunk[batch.count] = batch.chunks;
    batch.chunks += (piece.size + kGatherChunk - 1) / kGatherChunk;
    ++batch.count;
  }
  return batches;
}

}  // namespace ddpm::parallel::cuda
