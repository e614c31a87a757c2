// Attention backward: lanes are keys, queries come in tiles. With P = softmax(S), S = q kᵀ / √size and
// D_i = dy_i · y_i (Dao et al.: "FlashAttention", 2022, appendix B),
//
//   dP = dy vᵀ,  dS = P ∘ (dP - D),  dq = dS k / √size,  dk = dSᵀ q / √size,  dv = Pᵀ dy.
//
// P is computed again from the scores and their log-sums. The scores have forward's bits, since q carries the scale
// there and here and sums run in the same order: so none exceeds its log-sum, however large they are.
#pragma once

#include "nn/ops/cpu/small_products.h"

namespace ddpm::nn::cpu {
namespace {

constexpr int64_t kQueryTile = 64;
constexpr float kLn2 = 0x1.62e43p-1F;
constexpr int kQueryRows = 8;  // dq has no second column of vectors to fill the multipliers

/// Buffers of one thread. q, dy, dq and k are rows of `size` floats; what is of kWidth keys is transposed.
template <int kLanes>
struct BackwardScratch {
  BackwardScratch(float* memory, int64_t queries, int64_t size) : pieces(memory) {
    const int64_t rows = rounded_up(queries, kQueryRows);
    q = pieces.take(rows * size);
    dy = pieces.take(rows * size);
    dq = pieces.take(rows * size);
    log_sums = pieces.take(rows);
    deltas = pieces.take(rows);
    k = pieces.take(kWidth<kLanes> * size);
    k_transposed = pieces.take(size * kWidth<kLanes>);
    v = pieces.take(size * kWidth<kLanes>);
    dk = pieces.take(size * kWidth<kLanes>);
    dv = pieces.take(size * kWidth<kLanes>);
    p = pieces.take(kQueryTile * kWidth<kLanes>);
    ds = pieces.take(kQueryTile * kWidth<kLanes>);
  }

  Pieces pieces;
  float *q, *dy, *dq, *log_sums, *deltas;
  float *k, *k_transposed, *v, *dk, *dv;
  float *p, *ds;
};

/// One tile of queries against one block of keys.
struct Tile {
  int64_t first;    ///< query
  int64_t queries;  ///< at most kQueryTile
  int64_t keys;     ///< at most kWidth
  int64_t size;
};

/// p = exp2(q · k - log-sum), then ds = p ∘ (dy · v - delta). Rows beyond the tile's are computed, but not used.
template <int kLanes>
DDPM_INLINE void score_gradients(const BackwardScratch<kLanes>& s, const Tile& t) {
  constexpr int64_t kRow = kWidth<kLanes>;
  for (int64_t i = 0; i < t.queries; i += kRows) {
    const int64_t query = t.first + i;
    Block<kLanes> p = {};
    multiply_add(p, {s.q + query * t.size, t.size, 1}, s.k_transposed, kRow, t.size);
    for (int r = 0; r < kRows; ++r) {
      for (int64_t v = 0; v < kVectors; ++v) p.at[r][v] = exp2<kLanes>(p.at[r][v] - s.log_sums[query + r]);
    }
    store_block(s.p + i * kRow, p, kRow);
  }
  for (int64_t i = 0; i < t.queries; i += kRows) {
    const int64_t query = t.first + i;
    Block<kLanes> ds = {};
    multiply_add(ds, {s.dy + query * t.size, t.size, 1}, s.v, kRow, t.size);
    const Block<kLanes> p = load_block<kLanes>(s.p + i * kRow, kRow);
    for (int r = 0; r < kRows; ++r) {
      for (int64_t v = 0; v < kVectors; ++v) ds.at[r][v] = p.at[r][v] * (ds.at[r][v] - s.deltas[query + r]);
    }
    store_block(s.ds + i * kRow, ds, kRow);
  }
}

/// result[c] += Σ_i rows(i, c) · weights[i]
template <int kLanes>
DDPM_INLINE void add_key_gradients(const float* rows, const float* weights, const Tile& t, float* result) {
  constexpr int64_t kRow = kWidth<kLanes>;
  for (int64_t c = 0; c < t.size; c += kRows) {
    Block<kLanes> block = load_block<kLanes>(result + c * kRow, kRow);
    multiply_add(block, {rows + t.first * t.size + c, 1, t.size}, weights, kRow, t.queries);
    store_block(result + c * kRow, block, kRow);
  }
}

/// dq[i] += Σ_j ds(i, j) · k[j]: here lanes are channels of the head, half as many until they divide its size.
template <int kLanes, int kBlockLanes = kLanes>
DDPM_INLINE void add_query_gradients(const BackwardScratch<kLanes>& s, const Tile& t) {
  if constexpr (kBlockLanes > kHeadMultiple) {
    if (t.size % kBlockLanes != 0) return add_query_gradients<kLanes, kBlockLanes / 2>(s, t);
  }
  for (int64_t i = 0; i < t.queries; i += kQueryRows) {
    for (int64_t c = 0; c < t.size; c += kBlockLanes) {
      float* const dq = s.dq + (t.first + i) * t.size + c;
      auto block = load_block<kBlockLanes, kQueryRows, 1>(dq, t.size);
      multiply_add(block, {s.ds + i * kWidth<kLanes>, kWidth<kLanes>, 1}, s.k + c, t.size, t.keys);
      store_block(dq, block, t.size);
    }
  }
}

/// What all blocks of keys read: q, dy, log-sums and D; dq is zero. Rows beyond the queries are zero.
template <int kLanes, typename T>
DDPM_INLINE void pack_queries(const BackwardScratch<kLanes>& s, const AttentionHead<T>& head, const T* y,
                              const float* log_sums, const T* dy) {
  const int64_t rows = rounded_up(head.queries, kQueryRows);
  for (int64_t i = 0; i < rows * head.size; ++i) s.q[i] = s.dy[i] = s.dq[i] = 0.0F;
  for (int64_t i = 0; i < rows; ++i) s.log_sums[i] = s.deltas[i] = 0.0F;
  pack(head.q, head.stride, head.queries, head.size, log2e_over_root(head.size), s.q);
  pack(dy, head.stride, head.queries, head.size, 1.0F, s.dy);
  for (int64_t i = 0; i < head.queries; ++i) {
    s.log_sums[i] = log_sums[i];
    for (int64_t c = 0; c < head.size; ++c) s.deltas[i] += s.dy[i * head.size + c] * to_float(y[i * head.stride + c]);
  }
}

template <int kLanes, typename T>
void attention_backward(const AttentionHead<T>& head, const T* y, const float* log_sums, const T* dy, T* dq, T* dk,
                        T* dv, float* memory) {
  constexpr int64_t kRow = kWidth<kLanes>;
  const int64_t size = head.size;
  const int64_t stride = head.stride;
  const BackwardScratch<kLanes> s(memory, head.queries, size);
  const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(size));
  pack_queries(s, head, y, log_sums, dy);
  for (int64_t first = 0; first < head.keys; first += kRow) {
    const int64_t keys = least(kRow, head.keys - first);
    const int64_t offset = first * stride;
    pack(head.k + offset, stride, keys, size, 1.0F, s.k);
    pack_transposed(head.k + offset, stride, keys, size, 1.0F, kRow, s.k_transposed);
    pack_transposed(head.v + offset, stride, keys, size, 1.0F, kRow, s.v);
    for (int64_t i = 0; i < size * kRow; ++i) s.dk[i] = s.dv[i] = 0.0F;
    for (int64_t query = 0; query < head.queries; query += kQueryTile) {
      const Tile tile{.first = query, .queries = least(kQueryTile, head.queries - query), .keys = keys, .size = size};
      score_gradients<kLanes>(s, tile);
      add_key_gradients<kLanes>(s.dy, s.p, tile, s.dv);
      add_key_gradients<kLanes>(s.q, s.ds, tile, s.dk);
      add_query_gradients<kLanes>(s, tile);
    }
    unpack_transposed(s.dk, kRow, keys, size, kLn2, dk + offset, stride);  // q was scaled
    unpack_transposed(s.dv, kRow, keys, size, 1.0F, dv + offset, stride);
  }
  unpack(s.dq, head.queries, size, scale, dq, stride);
}

template <int kLanes, typename T>
int64_t backward_scratch(const AttentionHead<T>& head) {
  return BackwardScratch<kLanes>(nullptr, head.queries, head.size).pieces.taken();
}

}  // namespace
}  // namespace ddpm::nn::cpu
