// Vectors of kLanes floats in the compiler's own notation, and what the kernels need of them.
//
// The kernels are templates over kLanes. One source file per instruction set compiles them with that set's flags (see
// kernel_table.h), so a function with a shared name could reach a processor that lacks the instructions: all of this
// has internal linkage, and no header with code of its own is included.
#pragma once

#include <cstdint>

#include "nn/ops/cpu/kernels.h"

#define DDPM_INLINE [[gnu::always_inline]] inline

namespace ddpm::nn::cpu {
namespace {

DDPM_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

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

/// 2^x with a relative error below 2e-7 for -126 <= x <= 127; zero from -127 on downwards, NaN for NaN, and infinite at
/// 128. No larger x may come.
///
/// x = n + f with |f| <= 1/2: adding 1.5 * 2^23 leaves n in the lowest bits of a float. 2^f is the polynomial of degree
/// 5 with the smallest largest relative error (9.1e-8, by Remez' method) among those that are 1 at 0.
template <int kLanes>
DDPM_INLINE Floats<kLanes> exp2(Floats<kLanes> x) {
  constexpr float kRound = 0x1.8p23F;
  x = larger<kLanes>(broadcast<kLanes>(-127.0F), x);
  const Floats<kLanes> shifted = x + kRound;
  const Floats<kLanes> f = x - (shifted - kRound);
  Floats<kLanes> p = 0x1.5bba14p-10F * f + 0x1.3cea88p-7F;
  p = p * f + 0x1.c6b752p-5F;
  p = p * f + 0x1.ebf9bcp-3F;
  p = p * f + 0x1.62e42ap-1F;
  p = p * f + 1.0F;
  const Words<kLanes> power = ((Words<kLanes>)shifted + 127U) << 23;  // n + 127 is the exponent's field of 2^n
  return p * (Floats<kLanes>)power;
}

/// 1 / (1 + e^-x). The relative error grows as the rounding of the exponent does, to 5e-6 at x = -80.
template <int kLanes>
DDPM_INLINE Floats<kLanes> sigmoid(Floats<kLanes> x) {
  constexpr float kLog2E = 0x1.715476p0F;
  return 1.0F / (1.0F + exp2<kLanes>(smaller<kLanes>(broadcast<kLanes>(128.0F), x * -kLog2E)));
}

}  // namespace
}  // namespace ddpm::nn::cpu
