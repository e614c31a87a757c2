// Vectors of kLanes floats in the compiler's own notation, and what the kernels need of them.
//
// The kernels are templates over kLanes. One source file per instruction set compiles them with that set's flags (see
// kernel_table.h), so a function with a shared name could reach a processor that lacks the instructions: all of this
// has internal linkage, and no header with code of its own is included, but those of the processor's instructions,
// whose functions are always inlined.
//
// Results do not depend on kLanes: each lane adds up numbers of its own, in an order that follows from the shape, and
// products that are added are rounded together with the sum, by add_product(), or before it, where a plain * stands.
// The compiler may not fuse others (-ffp-contract=off). No function of the C library is called.
#pragma once

#include <cstdint>

#if defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "nn/ops/cpu/kernels.h"

#define DDPM_INLINE [[gnu::always_inline]] inline

namespace ddpm::nn::cpu {
namespace {

DDPM_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// Whether add_product() rounds once. Without an instruction for it, it does where DDPM_FUSE_IN_DOUBLE is defined, at
/// twenty times the cost.
#if defined(__FMA__) || defined(__aarch64__) || defined(DDPM_FUSE_IN_DOUBLE)
constexpr bool kRoundsOnce = true;
#else
constexpr bool kRoundsOnce = false;
#endif

/// Whether there are 32 vector registers, not 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif

#if defined(__AVX512F__)
/// A mask that keeps all lanes, for AVX-512's intrinsics that zero the others: with it they are the plain instructions.
/// gcc 12 warns of the intrinsics without a mask, since they leave an operand of their masked form undefined.
constexpr __mmask16 kAllLanes = 0xFFFF;
#endif

template <int kLanes, typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T))));
};

template <int kLanes>
using Floats = typename VectorOf<kLanes, float>::Type;
template <int kLanes>
using Words = typename VectorOf<kLanes, uint32_t>::Type;
template <int kLanes>
using Halves = typename VectorOf<kLanes, uint16_t>::Type;

template <int kLanes>
using Doubles = typename VectorOf<kLanes, double>::Type;

template <int kLanes>
DDPM_INLINE Floats<kLanes> broadcast(float value) {
  return value - Floats<kLanes>{};
}

template <int kLanes>
DDPM_INLINE Floats<kLanes> load(const float* from) {
  Floats<kLanes> v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

template <int kLanes>
DDPM_INLINE Floats<kLanes> load(const BFloat16* from) {
  Halves<kLanes> bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
#if defined(__AVX512F__)  // gcc 12 makes four instructions of the conversion below
  if constexpr (kLanes == 16) {
    return (Floats<kLanes>)((Words<kLanes>)_mm512_maskz_cvtepu16_epi32(kAllLanes, (__m256i)bits) << 16);
  }
#endif
  return (Floats<kLanes>)(__builtin_convertvector(bits, Words<kLanes>) << 16);
}

template <int kLanes>
DDPM_INLINE void store(float* to, Floats<kLanes> v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

// Rounds to the nearest, ties to even. NaNs are treated separately, since rounding could turn one into infinity.
template <int kLanes>
DDPM_INLINE void store(BFloat16* to, Floats<kLanes> v) {
  const auto bits = (Words<kLanes>)v;
  const Words<kLanes> rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const Words<kLanes> kept = v == v ? rounded : Words<kLanes>{} + 0x7FC0U;
#if defined(__AVX512F__)
  if constexpr (kLanes == 16) {
    const __m256i halves = _mm512_maskz_cvtepi32_epi16(kAllLanes, (__m512i)kept);
    __builtin_memcpy(to, &halves, sizeof(halves));
    return;
  }
#endif
  const Halves<kLanes> halves = __builtin_convertvector(kept, Halves<kLanes>);
  __builtin_memcpy(to, &halves, sizeof(halves));
}

/// The first `count` <= kLanes of a vector; the other lanes are zero.
template <int kLanes, typename T>
DDPM_INLINE Floats<kLanes> load(const T* from, int64_t count) {
  if (count == kLanes) return load<kLanes>(from);
  T some[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) some[i] = from[i];
  return load<kLanes>(some);
}

template <int kLanes, typename T>
DDPM_INLINE void store(T* to, Floats<kLanes> v, int64_t count) {
  if (count == kLanes) return store<kLanes>(to, v);
  T some[kLanes];
  store<kLanes>(some, v);
  for (int64_t i = 0; i < count; ++i) to[i] = some[i];
}

template <int kLanes>
DDPM_INLINE Doubles<kLanes> doubles(Floats<kLanes> v) {
  return __builtin_convertvector(v, Doubles<kLanes>);
}

#if defined(DDPM_FUSE_IN_DOUBLE)
/// sum + a · b, rounded once: products of floats are exact in float64, and their sum with a third float, rounded to the
/// odd one of its two neighbours, rounds to the float32 number that the exact sum rounds to (Boldo, Melquiond:
/// "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
template <int kLanes>
DDPM_INLINE Floats<kLanes> fuse_in_double(Floats<kLanes> sum, Floats<kLanes> a, Floats<kLanes> b) {
  using Bits = typename VectorOf<kLanes, int64_t>::Type;
  const Doubles<kLanes> product = doubles<kLanes>(a) * doubles<kLanes>(b);
  const Doubles<kLanes> addend = doubles<kLanes>(sum);
  const Doubles<kLanes> nearest = product + addend;
  const Doubles<kLanes> of_addend = nearest - product;
  const Doubles<kLanes> error = (product - (nearest - of_addend)) + (addend - of_addend);
  const auto bits = (Bits)nearest;
  const Bits inexact = (Bits)(error > 0.0) | (Bits)(error < 0.0);
  const Bits away = (Bits)(error > 0.0) ^ (bits >> 63);  // whether the exact sum lies further from zero
  const Bits step = (away & 1) * 2 - 1;
  const Bits odd = bits + (step & inexact & ((bits & 1) - 1));
  return __builtin_convertvector((Doubles<kLanes>)odd, Floats<kLanes>);
}
#endif

/// sum + a · b, rounded once if kRoundsOnce.
template <int kLanes>
DDPM_INLINE Floats<kLanes> add_product(Floats<kLanes> sum, Floats<kLanes> a, Floats<kLanes> b) {
#if defined(__FMA__)
#if defined(__AVX512F__)
  if constexpr (kLanes == 16) return _mm512_fmadd_ps(a, b, sum);
#endif
  if constexpr (kLanes == 8) return _mm256_fmadd_ps(a, b, sum);
  if constexpr (kLanes == 4) return _mm_fmadd_ps(a, b, sum);
#elif defined(__aarch64__)
  return vfmaq_f32(sum, a, b);
#elif defined(DDPM_FUSE_IN_DOUBLE)
  return fuse_in_double<kLanes>(sum, a, b);
#else
  return sum + a * b;
#endif
}

template <int kLanes>
DDPM_INLINE Floats<kLanes> add_product(Floats<kLanes> sum, float a, Floats<kLanes> b) {
  return add_product<kLanes>(sum, broadcast<kLanes>(a), b);
}

/// sum - a · b, likewise.
template <int kLanes>
DDPM_INLINE Floats<kLanes> subtract_product(Floats<kLanes> sum, Floats<kLanes> a, Floats<kLanes> b) {
#if defined(__FMA__)
#if defined(__AVX512F__)
  if constexpr (kLanes == 16) return _mm512_fnmadd_ps(a, b, sum);
#endif
  if constexpr (kLanes == 8) return _mm256_fnmadd_ps(a, b, sum);
  if constexpr (kLanes == 4) return _mm_fnmadd_ps(a, b, sum);
#elif defined(__aarch64__)
  return vfmsq_f32(sum, a, b);
#else
  return add_product<kLanes>(sum, -a, b);
#endif
}

template <int kLanes>
DDPM_INLINE Doubles<kLanes> load_doubles(const double* from, int64_t count) {
  Doubles<kLanes> v = {};
  if (count == kLanes) {
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
  }
  for (int64_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
}

template <int kLanes>
DDPM_INLINE void store_doubles(double* to, Doubles<kLanes> v, int64_t count) {
  if (count == kLanes) {
    __builtin_memcpy(to, &v, sizeof(v));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = v[i];
}

/// b where a is not larger, a NaN in b too.
template <int kLanes>
DDPM_INLINE Floats<kLanes> larger(Floats<kLanes> a, Floats<kLanes> b) {
#if defined(__AVX512F__)
  if constexpr (kLanes == 16) return _mm512_maskz_max_ps(kAllLanes, a, b);
#endif
  return a > b ? a : b;
}

template <int kLanes>
DDPM_INLINE Floats<kLanes> smaller(Floats<kLanes> a, Floats<kLanes> b) {
#if defined(__AVX512F__)
  if constexpr (kLanes == 16) return _mm512_maskz_min_ps(kAllLanes, a, b);
#endif
  return a < b ? a : b;
}

/// The factors of 2^x for kCount vectors: numbers between 1/√2 and √2, and powers of two.
template <int kLanes, int kCount>
struct Exp2Factors {
  Floats<kLanes> p[kCount];
  Floats<kLanes> power[kCount];
};

/// x = n + f with |f| <= 1/2: adding 1.5 * 2^23 leaves n in the lowest bits of a float. 2^f is the polynomial of degree
/// 5 with the smallest largest relative error (9.1e-8, by Remez' method) among those that are 1 at 0.
///
/// Each step is done for all vectors before the next one: a vector's steps wait for each other, and the processor looks
/// ahead too little to find other vectors' steps behind them.
template <int kLanes, int kCount>
DDPM_INLINE Exp2Factors<kLanes, kCount> exp2_factors(const Floats<kLanes> (&x)[kCount]) {
  constexpr float kRound = 0x1.8p23F;
  constexpr float kPowers[] = {0x1.3cea88p-7F, 0x1.c6b752p-5F, 0x1.ebf9bcp-3F, 0x1.62e42ap-1F, 1.0F};
  Exp2Factors<kLanes, kCount> result;
  Floats<kLanes> f[kCount];
  Floats<kLanes> shifted[kCount];
  for (int v = 0; v < kCount; ++v) f[v] = larger<kLanes>(broadcast<kLanes>(-127.0F), x[v]);
  for (int v = 0; v < kCount; ++v) shifted[v] = f[v] + kRound;
  for (int v = 0; v < kCount; ++v) f[v] -= shifted[v] - kRound;
  for (int v = 0; v < kCount; ++v) result.p[v] = broadcast<kLanes>(0x1.5bba14p-10F);
  for (const float next : kPowers) {
    for (int v = 0; v < kCount; ++v) result.p[v] = add_product<kLanes>(broadcast<kLanes>(next), result.p[v], f[v]);
  }
  for (int v = 0; v < kCount; ++v) {
    const Words<kLanes> power = ((Words<kLanes>)shifted[v] + 127U) << 23;  // n + 127 is the exponent's field of 2^n
    result.power[v] = (Floats<kLanes>)power;
  }
  return result;
}

/// 2^x with a relative error below 2e-7 for -126 <= x <= 127; zero from -127 on downwards, NaN for NaN, and infinite at
/// 128. No larger x may come.
template <int kLanes>
DDPM_INLINE Floats<kLanes> exp2(Floats<kLanes> x) {
  const Floats<kLanes> one[1] = {x};
  const auto of_x = exp2_factors<kLanes, 1>(one);
  return of_x.p[0] * of_x.power[0];
}

/// The logarithm of x to the base 2, for normal x > 0, with an error below 2e-7 of the larger of 1 and the result; NaN
/// for NaN.
///
/// x = 2^e m with m in [√½, √2), ln m = 2 artanh s, s = (m - 1) / (m + 1), |s| < 0.172. The first term of the series
/// left out is below 2e-9 of ln m.
template <int kLanes>
DDPM_INLINE Floats<kLanes> log2(Floats<kLanes> x) {
  constexpr uint32_t kOne = 0x3F800000U;
  constexpr uint32_t kRootHalf = 0x3F3504F3U;
  constexpr float kTwoOverLn2 = 0x1.715476p1F;
  const auto bits = (Words<kLanes>)x;
  const Words<kLanes> biased = (bits - kRootHalf + kOne) >> 23;  // e + 127
  const auto m = (Floats<kLanes>)(bits - (biased << 23) + kOne);
  const Floats<kLanes> s = (m - 1.0F) / (m + 1.0F);
  const Floats<kLanes> z = s * s;
  constexpr float kPowers[] = {kTwoOverLn2 / 7.0F, kTwoOverLn2 / 5.0F, kTwoOverLn2 / 3.0F, kTwoOverLn2};
  Floats<kLanes> p = broadcast<kLanes>(kTwoOverLn2 / 9.0F);
  for (const float next : kPowers) p = add_product<kLanes>(broadcast<kLanes>(next), p, z);
  const Floats<kLanes> e = __builtin_convertvector((typename VectorOf<kLanes, int32_t>::Type)biased, Floats<kLanes>);
  const Floats<kLanes> result = add_product<kLanes>(e - 127.0F, p, s);
  return x == x ? result : x;
}

/// y = 1 / (1 + e^-x). The relative error grows as the rounding of the exponent does, to 5e-6 at x = -80.
template <int kLanes, int kCount>
DDPM_INLINE void sigmoid(const Floats<kLanes> (&x)[kCount], Floats<kLanes> (&y)[kCount]) {
  constexpr float kLog2E = 0x1.715476p0F;
  for (int v = 0; v < kCount; ++v) y[v] = smaller<kLanes>(broadcast<kLanes>(128.0F), x[v] * -kLog2E);
  const auto of_x = exp2_factors<kLanes, kCount>(y);
  for (int v = 0; v < kCount; ++v) y[v] = add_product<kLanes>(broadcast<kLanes>(1.0F), of_x.p[v], of_x.power[v]);
  for (int v = 0; v < kCount; ++v) y[v] = 1.0F / y[v];
}

}  // namespace
}  // namespace ddpm::nn::cpu
