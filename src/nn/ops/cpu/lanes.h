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
  return a > b ? a : b;
}

template <int kLanes>
DDPM_INLINE Floats<kLanes> smaller(Floats<kLanes> a, Floats<kLanes> b) {
  return a < b ? a : b;
}

/// The factors of 2^x: a number between 1/√2 and √2, and a power of two.
template <int kLanes>
struct Exp2Factors {
  Floats<kLanes> p;
  Floats<kLanes> power;
};

/// x = n + f with |f| <= 1/2: adding 1.5 * 2^23 leaves n in the lowest bits of a float. 2^f is the polynomial of degree
/// 5 with the smallest largest relative error (9.1e-8, by Remez' method) among those that are 1 at 0.
template <int kLanes>
DDPM_INLINE Exp2Factors<kLanes> exp2_factors(Floats<kLanes> x) {
  constexpr float kRound = 0x1.8p23F;
  x = larger<kLanes>(broadcast<kLanes>(-127.0F), x);
  const Floats<kLanes> shifted = x + kRound;
  const Floats<kLanes> f = x - (shifted - kRound);
  constexpr float kPowers[] = {0x1.3cea88p-7F, 0x1.c6b752p-5F, 0x1.ebf9bcp-3F, 0x1.62e42ap-1F, 1.0F};
  Floats<kLanes> p = broadcast<kLanes>(0x1.5bba14p-10F);
  for (const float next : kPowers) p = add_product<kLanes>(broadcast<kLanes>(next), p, f);
  const Words<kLanes> power = ((Words<kLanes>)shifted + 127U) << 23;  // n + 127 is the exponent's field of 2^n
  return {p, (Floats<kLanes>)power};
}

/// 2^x with a relative error below 2e-7 for -126 <= x <= 127; zero from -127 on downwards, NaN for NaN, and infinite at
/// 128. No larger x may come.
template <int kLanes>
DDPM_INLINE Floats<kLanes> exp2(Floats<kLanes> x) {
  const Exp2Factors<kLanes> of_x = exp2_factors<kLanes>(x);
  return of_x.p * of_x.power;
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

/// 1 / (1 + e^-x). The relative error grows as the rounding of the exponent does, to 5e-6 at x = -80.
template <int kLanes>
DDPM_INLINE Floats<kLanes> sigmoid(Floats<kLanes> x) {
  constexpr float kLog2E = 0x1.715476p0F;
  const auto of_x = exp2_factors<kLanes>(smaller<kLanes>(broadcast<kLanes>(128.0F), x * -kLog2E));
  return 1.0F / add_product<kLanes>(broadcast<kLanes>(1.0F), of_x.p, of_x.power);
}

}  // namespace
}  // namespace ddpm::nn::cpu
