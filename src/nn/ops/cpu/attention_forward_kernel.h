// Attention forward: lanes are queries, keys come in tiles, and the softmax keeps a running maximum (Milakov,
// Gimelshein: "Online normalizer calculation for softmax", 2018). See kernels.h.
#pragma once

#include "nn/ops/cpu/small_products.h"

namespace ddpm::nn::cpu {
namespace {

constexpr int64_t kKeyTile = 32;

/// What the keys so far give for kWidth queries: the largest score, and Σ exp2(score - largest).
template <int kLanes>
struct RunningSoftmax {
  Floats<kLanes> largest[kVectors];
  Floats<kLanes> sum[kVectors];

  RunningSoftmax() {
    for (int64_t v = 0; v < kVectors; ++v) {
      largest[v] = broadcast<kLanes>(-__builtin_inff());
      sum[v] = Floats<kLanes>{};
    }
  }

  /// Replaces `keys` rows of scores by exp2(score - largest); what was summed before is now worth `kept` of it.
  DDPM_INLINE void add(float* scores, int64_t keys, Floats<kLanes> (&kept)[kVectors]) {
    for (int64_t v = 0; v < kVectors; ++v) {
      float* const column = scores + v * kLanes;
      const Floats<kLanes> before = largest[v];
      for (int64_t j = 0; j < keys; ++j) {
        largest[v] = larger<kLanes>(load<kLanes>(column + j * kWidth<kLanes>), largest[v]);
      }
      kept[v] = exp2<kLanes>(before - largest[v]);
      sum[v] *= kept[v];
      for (int64_t j = 0; j < keys; ++j) {
        float* const score = column + j * kWidth<kLanes>;
        const Floats<kLanes> p = exp2<kLanes>(load<kLanes>(score) - largest[v]);
        sum[v] += p;
        store<kLanes>(score, p);
      }
    }
  }
};

/// Buffers of one thread. k and v are rows of `size` floats; q, y and scores are transposed, kWidth queries wide.
template <int kLanes>
struct ForwardScratch {
  ForwardScratch(float* memory, int64_t keys, int64_t size) : pieces(memory) {
    k = pieces.take(rounded_up(keys, kRows) * size);
    v = pieces.take(keys * size);
    q = pieces.take(size * kWidth<kLanes>);
    y = pieces.take(size * kWidth<kLanes>);
    scores = pieces.take(kKeyTile * kWidth<kLanes>);
  }

  Pieces pieces;
  float* k;
  float* v;
  float* q;
  float* y;
  float* scores;
};

/// y = Σ_j softmax(scores)_j v_j, not yet divided by the sum, for the kWidth queries in s.q.
template <int kLanes>
DDPM_INLINE void attend(const ForwardScratch<kLanes>& s, int64_t all_keys, int64_t size,
                        RunningSoftmax<kLanes>& softmax) {
  constexpr int64_t kRow = kWidth<kLanes>;
  for (int64_t i = 0; i < size * kRow; ++i) s.y[i] = 0.0F;
  for (int64_t first = 0; first < all_keys; first += kKeyTile) {
    const int64_t keys = least(kKeyTile, all_keys - first);
    for (int64_t j = 0; j < keys; j += kRows) {
      Block<kLanes> scores = {};
      multiply_add(scores, {s.k + (first + j) * size, size, 1}, s.q, kRow, size);
      store_block(s.scores + j * kRow, scores, kRow);
    }
    Floats<kLanes> kept[kVectors];
    softmax.add(s.scores, keys, kept);
    for (int64_t c = 0; c < size; c += kRows) {
      Block<kLanes> y = load_block<kLanes>(s.y + c * kRow, kRow);
      for (int r = 0; r < kRows; ++r) {
        for (int64_t v = 0; v < kVectors; ++v) y.at[r][v] *= kept[v];
      }
      multiply_add(y, {s.v + first * size + c, 1, size}, s.scores, kRow, keys);
      store_block(s.y + c * kRow, y, kRow);
    }
  }
}

template <int kLanes, typename T>
void attention_forward(const AttentionHead<T>& head, T* y, float* log_sums, float* memory) {
  constexpr int64_t kRow = kWidth<kLanes>;
  const ForwardScratch<kLanes> s(memory, head.keys, head.size);
  pack(head.k, head.stride, head.keys, head.size, 1.0F, s.k);
  pack(head.v, head.stride, head.keys, head.size, 1.0F, s.v);
  for (int64_t i = head.keys * head.size; i < rounded_up(head.keys, kRows) * head.size; ++i) s.k[i] = 0.0F;
  for (int64_t first = 0; first < head.queries; first += kRow) {
    const int64_t queries = least(kRow, head.queries - first);
    pack_transposed(head.q + first * head.stride, head.stride, queries, head.size, log2e_over_root(head.size), kRow,
                    s.q);
    RunningSoftmax<kLanes> softmax;
    attend<kLanes>(s, head.keys, head.size, softmax);
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t count = least(kLanes, queries - v * kLanes);
      if (count > 0) {
        store<kLanes>(log_sums + first + v * kLanes, softmax.largest[v] + log2<kLanes>(softmax.sum[v]), count);
      }
      for (int64_t c = 0; c < head.size; ++c) {
        float* const row = s.y + c * kRow + v * kLanes;
        store<kLanes>(row, load<kLanes>(row) / softmax.sum[v]);
      }
    }
    unpack_transposed(s.y, kRow, queries, head.size, 1.0F, y + first * head.stride, head.stride);
  }
}

template <int kLanes, typename T>
int64_t forward_scratch(const AttentionHead<T>& head) {
  return ForwardScratch<kLanes>(nullptr, head.keys, head.size).pieces.taken();
}

}  // namespace
}  // namespace ddpm::nn::cpu
