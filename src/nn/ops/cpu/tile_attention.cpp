// Attention forward by instructions that multiply whole tiles of bfloat16 (AMX), for one head of one image.
//
// Keys are the rows of a tile of scores, and 16 queries its columns: a vector holds the scores of one key, and the
// softmax needs no sums across lanes. Its probabilities, two keys in a lane, lie as the second product wants its right
// factor. The left one is vᵀ, which is made once per head.
#include "nn/ops/cpu/kernels.h"
#include "nn/ops/cpu/small_products.h"
#include "nn/ops/cpu/tiles.h"

namespace ddpm::nn::cpu {
namespace {

constexpr int64_t kKeyBlock = 128;  ///< keys whose scores and probabilities stay in the first-level cache

struct HeadShape {
  int64_t size;
  int64_t keys;

  [[nodiscard]] int64_t parts() const { return rounded_up(size, kDepth) / kDepth; }  ///< products that a score sums
  [[nodiscard]] int64_t depth() const { return least(size, kDepth); }                ///< channels of a part
  [[nodiscard]] int64_t rows() const { return least(size, kSide); }                  ///< channels in a tile of y
  [[nodiscard]] int64_t channels() const { return rounded_up(size, rows()); }
  [[nodiscard]] int64_t padded_keys() const { return rounded_up(keys, kDepth); }
};

/// Buffers of one thread. What is beyond the head's keys and channels is zero.
struct Scratch {
  Scratch(float* memory, const HeadShape& shape) : pieces(memory) {
    const auto halves = [&](int64_t count) { return reinterpret_cast<BFloat16*>(pieces.take((count + 1) / 2)); };
    keys = halves(shape.parts() * shape.padded_keys() * shape.depth());
    values = halves(shape.channels() * shape.padded_keys());
    queries = halves(shape.parts() * kSide * kDepth);
    probabilities = halves(kKeyBlock * kSide);
    scores = pieces.take(kKeyBlock * kSide);
    products = pieces.take(shape.channels() * kSide);
    y = pieces.take(shape.channels() * kSide);
  }

  Pieces pieces;
  BFloat16* keys;           ///< [parts, padded keys, depth]
  BFloat16* values;         ///< [channels, padded keys]
  BFloat16* queries;        ///< [parts, 16 pairs of channels, 16 queries, 2]
  BFloat16* probabilities;  ///< [pairs of a block's keys, 16 queries, 2]
  float* scores;            ///< [keys of a block, 16 queries]
  float* products;          ///< [channels, 16 queries]: what a block of keys adds to y
  float* y;                 ///< [channels, 16 queries], not yet divided by the sum of probabilities
};

/// 0 scores, 1 keys, 2 queries, 3 y, 4 values, 5 probabilities.
TileShapes tile_shapes(const HeadShape& shape) {
  const auto channels = static_cast<uint8_t>(shape.rows());
  TileShapes tiles;
  tiles.bytes[1] = static_cast<uint16_t>(2 * shape.depth());
  tiles.rows[2] = static_cast<uint8_t>(shape.depth() / 2);
  tiles.rows[3] = channels;
  tiles.rows[4] = channels;
  return tiles;
}

/// 2^x for x <= 0 with a relative error below 7.5e-5, a fiftieth of bfloat16's; zero for -∞ and NaN for NaN. The
/// polynomial of degree 3 is that with the smallest largest relative error for fractions (by Remez' method).
DDPM_INLINE Vector exp2_for_bfloat16(Vector x) {
  constexpr int kFraction = 0x09;  // x - ⌊x⌋
  constexpr float kPowers[] = {0x1.cefc4cp-3F, 0x1.64444cp-1F, 0x1.fff632p-1F};
  const Vector f = _mm512_reduce_ps(x, kFraction);
  Vector p = broadcast<kSide>(0x1.3f96a4p-4F);
  for (const float next : kPowers) p = add_product<kSide>(broadcast<kSide>(next), p, f);
  return _mm512_maskz_scalef_ps(kAllLanes, p, x);
}

DDPM_INLINE __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1U << count) - 1); }

/// Bytes from the first to each of 16 rows.
DDPM_INLINE __m512i row_offsets(int64_t stride) {
  static constexpr Lanes kTwice = lanes(0, 2);
  return _mm512_mullo_epi32(_mm512_load_si512(&kTwice), _mm512_set1_epi32(static_cast<int>(stride)));
}

/// Lane i < count: two channels of row i.
DDPM_INLINE __m512i load_pairs(const BFloat16* rows, __m512i offsets, int64_t count) {
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), first_lanes(count), offsets, rows, 1);
}

/// The lower halves of all lanes.
DDPM_INLINE void store_halves(BFloat16* to, __m512i lanes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(kAllLanes, lanes));
}

void pack_keys(const AttentionHead<BFloat16>& head, const HeadShape& shape, const Scratch& s) {
  const int64_t depth = shape.depth();
  BFloat16* to = s.keys;
  for (int64_t c = 0; c < shape.parts() * depth; c += depth) {
    const int64_t channels = least(depth, head.size - c);
    for (int64_t j = 0; j < shape.padded_keys(); ++j, to += depth) {
      const int64_t here = j < head.keys ? channels : 0;
      const BFloat16* const from = head.k + j * head.stride + c;
      for (int64_t i = 0; i < here; ++i) to[i] = from[i];
      for (int64_t i = here; i < depth; ++i) to[i] = {};
    }
  }
}

void pack_values(const AttentionHead<BFloat16>& head, const HeadShape& shape, const Scratch& s) {
  const int64_t padded = shape.padded_keys();
  const __m512i offsets = row_offsets(head.stride);
  for (int64_t j = 0; j < padded; j += kSide) {
    const int64_t count = least(kSide, j < head.keys ? head.keys - j : 0);
    for (int64_t c = 0; c < head.size; c += 2) {
      const __m512i pairs = load_pairs(head.v + j * head.stride + c, offsets, count);
      store_halves(s.values + c * padded + j, pairs);
      store_halves(s.values + (c + 1) * padded + j, _mm512_maskz_srli_epi32(kAllLanes, pairs, 16));
    }
  }
  for (int64_t i = head.size * padded; i < shape.channels() * padded; ++i) s.values[i] = {};
}

/// `count` <= 16 queries from row `first` on.
DDPM_INLINE void pack_queries(const AttentionHead<BFloat16>& head, const HeadShape& shape, int64_t first, int64_t count,
                              const Scratch& s) {
  const __m512i offsets = row_offsets(head.stride);
  for (int64_t c = 0; c < shape.parts() * shape.depth(); c += 2) {
    const __m512i pairs =
        c < head.size ? load_pairs(head.q + first * head.stride + c, offsets, count) : _mm512_setzero_si512();
    _mm512_storeu_si512(s.queries + c * kSide, pairs);
  }
}

/// scores[j][i] = k_j · q_i for the keys of a block, a multiple of 16.
DDPM_INLINE void compute_scores(const HeadShape& shape, int64_t first, int64_t keys, const Scratch& s) {
  const int64_t depth = shape.depth();
  order_memory();
  _tile_loadd(2, s.queries, kRowBytes);
  for (int64_t j = 0; j < keys; j += kSide) {
    _tile_zero(0);
    _tile_loadd(1, s.keys + (first + j) * depth, 2 * depth);
    _tile_dpbf16ps(0, 1, 2);
    if (shape.parts() == 2) {
      _tile_loadd(1, s.keys + (shape.padded_keys() + first + j) * depth, 2 * depth);
      _tile_loadd(2, s.queries + depth * kSide, kRowBytes);
      _tile_dpbf16ps(0, 1, 2);
      _tile_loadd(2, s.queries, kRowBytes);
    }
    _tile_stored(0, s.scores + j * kSide, kRowBytes);
  }
  order_memory();
}

/// What the keys so far give: the largest score, and Σ exp2((score - largest) · scale).
struct Softmax {
  Vector largest = broadcast<kSide>(-__builtin_inff());
  Vector sum = {};

  /// Turns a block of scores into probabilities, of which `padded` are written. Returns what those
  /// before are now worth.
  DDPM_INLINE Vector add(const float* scores, int64_t keys, int64_t padded, Vector scale, BFloat16* probabilities) {
    const auto score = [&](int64_t j) { return load<kSide>(scores + j * kSide); };
    constexpr int kChains = 4;  // as many as the processor's comparison has stages
    Vector tops[kChains] = {score(0), score(0), score(0), score(0)};
    int64_t j = 0;
    for (; j + kChains <= keys; j += kChains) {
      for (int i = 0; i < kChains; ++i) tops[i] = larger<kSide>(score(j + i), tops[i]);
    }
    for (; j < keys; ++j) tops[0] = larger<kSide>(score(j), tops[0]);
    const Vector top = larger<kSide>(larger<kSide>(tops[0], tops[1]), larger<kSide>(tops[2], tops[3]));
    const Vector before = largest;
    largest = larger<kSide>(top, before);
    // Exactly 1 where the largest score stays: a share less for each block of keys would add up.
    const Vector kept = exp2<kSide>((before - largest) * scale);
    const auto probability = [&](int64_t k) { return exp2_for_bfloat16((score(k) - largest) * scale); };
    Vector sums[2] = {sum * kept, Vector{}};
    for (j = 0; j < padded; j += 2) {
      const Vector even = j < keys ? probability(j) : Vector{};
      const Vector odd = j + 1 < keys ? probability(j + 1) : Vector{};
      sums[0] += even;
      sums[1] += odd;
      _mm512_storeu_si512(probabilities + j * kSide, rounded_pairs(even, odd));
    }
    sum = sums[0] + sums[1];
    return kept;
  }
};

/// y = kept · y + vᵀ p over the keys of a block, a multiple of 32.
DDPM_INLINE void add_values(const HeadShape& shape, int64_t first, int64_t keys, Vector kept, const Scratch& s) {
  const int64_t padded = shape.padded_keys();
  order_memory();
  for (int64_t c = 0; c < shape.channels(); c += shape.rows()) {
    _tile_zero(3);
    for (int64_t j = 0; j < keys; j += kDepth) {
      _tile_loadd(4, s.values + c * padded + first + j, 2 * padded);
      _tile_loadd(5, s.probabilities + j * kSide, kRowBytes);
      _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(3, s.products + c * kSide, kRowBytes);
  }
  order_memory();
  for (int64_t i = 0; i < shape.size * kSide; i += kSide) {
    store<kSide>(s.y + i, add_product<kSide>(load<kSide>(s.products + i), load<kSide>(s.y + i), kept));
  }
}

void attend(const AttentionHead<BFloat16>& head, BFloat16* y, float* memory) {
  const HeadShape shape{.size = head.size, .keys = head.keys};
  const Scratch s(memory, shape);
  const TileRegisters tiles(tile_shapes(shape));
  pack_keys(head, shape, s);
  pack_values(head, shape, s);
  const Vector scale = broadcast<kSide>(log2e_over_root(head.size));
  const __m512i offsets = row_offsets(head.stride);
  for (int64_t first = 0; first < head.queries; first += kSide) {
    const int64_t queries = least(kSide, head.queries - first);
    pack_queries(head, shape, first, queries, s);
    for (int64_t i = 0; i < head.size * kSide; ++i) s.y[i] = 0.0F;
    Softmax softmax;
    for (int64_t key = 0; key < head.keys; key += kKeyBlock) {
      const int64_t keys = least(kKeyBlock, head.keys - key);
      const int64_t padded = rounded_up(keys, kDepth);
      compute_scores(shape, key, padded, s);
      const Vector kept = softmax.add(s.scores, keys, padded, scale, s.probabilities);
      add_values(shape, key, padded, kept, s);
    }
    const Vector share = 1.0F / softmax.sum;
    for (int64_t c = 0; c < head.size; c += 2) {
      const float* const channel = s.y + c * kSide;
      const __m512i pairs = rounded_pairs(load<kSide>(channel) * share, load<kSide>(channel + kSide) * share);
      _mm512_mask_i32scatter_epi32(y + first * head.stride + c, first_lanes(queries), offsets, pairs, 1);
    }
  }
}

int64_t attend_scratch(const AttentionHead<BFloat16>& head) {
  return Scratch(nullptr, {.size = head.size, .keys = head.keys}).pieces.taken();
}

}  // namespace

constinit const TileAttention kTileAttention = {.forward = attend, .scratch = attend_scratch};

}  // namespace ddpm::nn::cpu
