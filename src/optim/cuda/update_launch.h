// Starts the CUDA kernels of optim/update_operators.h (optim/cuda/update_kernels.cuh), and the tables that they are
// given; part of libddpm_cuda.so. All pointers of the tables are to device memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optim/clip.h"
#include "optim/update_record.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddpm::optim {

/// Pieces that one launch takes: its table is an argument, of which CUDA allows 4 KiB.
inline constexpr int kMaxPieces = 32;

inline constexpr int kNormLanes = 16;
inline constexpr int kNormThreads = 64;  ///< four norm blocks: many small blocks, for small gradients
inline constexpr int kTreeThreads = 256;
inline constexpr int64_t kTreeRun = 2048;  ///< sums that one block adds up: a power of two, so that it is a node

struct SquaresBatch {
  const float* values[kMaxPieces];
  int64_t size[kMaxPieces];
  int64_t first_block[kMaxPieces];  ///< norm blocks of the pieces before
  int64_t first_run[kMaxPieces];    ///< runs of kTreeRun norm blocks of the pieces before
  int count;
  int64_t blocks;
  int64_t runs;
};

/// At most kMaxPieces pieces, each of at least one element.
inline SquaresBatch squares_batch(std::span<const float* const> values, std::span<const int64_t> sizes) {
  SquaresBatch batch{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int64_t blocks = norm_blocks(sizes[i]);
    batch.values[i] = values[i];
    batch.size[i] = sizes[i];
    batch.first_block[i] = batch.blocks;
    batch.first_run[i] = batch.runs;
    batch.blocks += blocks;
    batch.runs += (blocks + kTreeRun - 1) / kTreeRun;
  }
  batch.count = static_cast<int>(values.size());
  return batch;
}

/// Each batch is a launch of each kernel. There is at least one, so that no elements at all have a sum, too.
inline std::vector<SquaresBatch> squares_batches(std::span<const float* const> values, std::span<const int64_t> sizes) {
  std::vector<SquaresBatch> batches;
  for (std::size_t begin = 0; begin < values.size() || batches.empty(); begin += kMaxPieces) {
    const std::size_t count = std::min<std::size_t>(kMaxPieces, values.size() - begin);
    batches.push_back(squares_batch(values.subspan(begin, count), sizes.subspan(begin, count)));
  }
  return batches;
}

inline int64_t norm_grid(const SquaresBatch& batch) {
  constexpr int64_t kPerBlock = kNormThreads / kNormLanes;
  return (batch.blocks + kPerBlock - 1) / kPerBlock;
}

inline constexpr int kMaxAverages = 4;  ///< that one launch updates
inline constexpr int kUpdateThreads = 256;
inline constexpr int64_t kUpdateChunk = 4096;  ///< elements of a block
inline constexpr int kUpdateVector = 4;        ///< elements of a thread at a time: 16 bytes of float32

struct UpdatePiece {
  float* parameter;
  const float* gradient;
  float* exp_avg;
  float* exp_avg_sq;
  float* average[kMaxAverages];
  void* working;  ///< 16 bits each, or null
  int64_t size;
};

struct UpdateBatch {
  UpdatePiece pieces[kMaxPieces];
  int64_t first_chunk[kMaxPieces];  ///< chunks of the pieces before
  bool aligned[kMaxPieces];         ///< all pointers: for vectors
  int count;
  int averages;
  int first_average;  ///< whose 1 - decay belongs to average[0]
  int64_t chunks;     ///< the grid
};

inline bool is_aligned(const UpdatePiece& piece, int averages) {
  auto bits = reinterpret_cast<uintptr_t>(piece.parameter) | reinterpret_cast<uintptr_t>(piece.gradient) |
              reinterpret_cast<uintptr_t>(piece.exp_avg) | reinterpret_cast<uintptr_t>(piece.exp_avg_sq);
  for (int k = 0; k < averages; ++k) bits |= reinterpret_cast<uintptr_t>(piece.average[k]);
  return bits % (kUpdateVector * sizeof(float)) == 0 &&
         reinterpret_cast<uintptr_t>(piece.working) % (kUpdateVector * sizeof(uint16_t)) == 0;
}

/// At most kMaxPieces pieces, each of at least one element.
inline UpdateBatch update_batch(std::span<const UpdatePiece> pieces, int averages, int first_average) {
  UpdateBatch batch{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    batch.pieces[i] = pieces[i];
    batch.aligned[i] = is_aligned(pieces[i], averages);
    batch.first_chunk[i] = batch.chunks;
    batch.chunks += (pieces[i].size + kUpdateChunk - 1) / kUpdateChunk;
  }
  batch.count = static_cast<int>(pieces.size());
  batch.averages = averages;
  batch.first_average = first_average;
  return batch;
}

/// A launch per batch.
inline std::vector<UpdateBatch> update_batches(std::span<const UpdatePiece> pieces, int averages, int first_average) {
  std::vector<UpdateBatch> batches;
  for (std::size_t begin = 0; begin < pieces.size(); begin += kMaxPieces) {
    const std::size_t count = std::min<std::size_t>(kMaxPieces, pieces.size() - begin);
    batches.push_back(update_batch(pieces.subspan(begin, count), averages, first_average));
  }
  return batches;
}

// All only queue work on `stream`. They throw c10::Error when a kernel cannot be started.

/// Adds the squares of a batch to sums[0], from 0 in the first batch; completes `sums` in the last. of_blocks
/// [batch.blocks] and of_runs [batch.runs] are working space.
void start_squares(const SquaresBatch& batch, double* of_blocks, double* of_runs, CUstream_st* stream);
void start_total_squares(const SquaresBatch& batch, const double* of_runs, bool first, bool last, double replicas,
                         double* sums, CUstream_st* stream);

void start_begin_update(const UpdateRules& rules, const ScheduleRows& rows, double* record, float* scalars,
                        CUstream_st* stream);

/// Working: c10::BFloat16 or c10::Half; float where the parameters are the working weights. Without kWeights only the
/// averages follow.
template <typename Working, bool kWeights>
void start_flat_update(const UpdateBatch& batch, const float* scalars, CUstream_st* stream);

}  // namespace ddpm::optim
