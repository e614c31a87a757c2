#include "base/random.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "base/philox.h"

namespace ddpm::base {
namespace {

constexpr uint32_t kFeistelRounds = 8;
constexpr uint64_t kWords = uint64_t{1} << 32U;

std::array<uint32_t, 4> start_counter(Stream stream, uint64_t step, uint64_t position) {
  DDPM_CHECK(step < kWords && position < kWords, "step {} and position {} must each fit 32 bits", step, position);
  return {0, static_cast<uint32_t>(position), static_cast<uint32_t>(step), static_cast<uint32_t>(stream)};
}

// Bits of each half of the smallest square domain 2^b x 2^b that holds `size` numbers.
uint32_t half_width(uint64_t size) {
  const auto bits = static_cast<uint32_t>(std::bit_width(size - 1));
  return bits < 2 ? 1 : (bits + 1) / 2;
}

}  // namespace

std::array<uint32_t, 4> philox4x32(uint64_t key, const std::array<uint32_t, 4>& counter) {
  PhiloxWords words{counter[0], counter[1], counter[2], counter[3]};
  philox_rounds(key, words);
  return {words.w0, words.w1, words.w2, words.w3};
}

RandomSequence::RandomSequence(uint64_t seed, Stream stream, uint64_t step, uint64_t position)
    : seed_(seed), counter_(start_counter(stream, step, position)) {}

std::array<uint32_t, 4> RandomSequence::block(uint32_t b) const {
  std::array<uint32_t, 4> counter = counter_;
  counter[0] = b;
  return philox4x32(seed_, counter);
}

uint32_t RandomSequence::bits(uint64_t element) const {
  DDPM_CHECK(element / 4 < kWords, "element {} lies beyond the last of a sequence", element);
  return block(static_cast<uint32_t>(element / 4))[element % 4];
}

uint32_t RandomSequence::below(uint32_t n, uint64_t element) const {
  return static_cast<uint32_t>((uint64_t{bits(element)} * n) >> 32U);
}

double RandomSequence::uniform(uint64_t element) const {
  return (double{static_cast<double>(bits(element))} + 0.5) * 0x1p-32;
}

Permutation::Permutation(uint64_t seed, Stream stream, uint64_t step, uint64_t position, uint64_t size)
    : size_(size), half_bits_(0), seed_(seed), counter_(start_counter(stream, step, position)) {
  DDPM_CHECK(size > 0, "a permutation of {} numbers", size);
  half_bits_ = half_width(size);
}

// One pass through the network: a bijection of [0, 4^half_bits). Round r replaces (left, right) by
// (right, left ^ F_r(right)); the inverse runs the rounds backwards on swapped halves.
uint64_t Permutation::round_trip(uint64_t i, bool forward) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto left = static_cast<uint32_t>(i >> half_bits_);
  auto right = static_cast<uint32_t>(i & mask);
  if (!forward) std::swap(left, right);
  for (uint32_t r = 0; r < kFeistelRounds; ++r) {
    const uint32_t round = forward ? r : kFeistelRounds - 1 - r;
    // Rounds count from 1 in the stream's upper byte: no round shares its words with a RandomSequence of the stream.
    const std::array<uint32_t, 4> counter{right, counter_[1], counter_[2], counter_[3] | (round + 1) << 24U};
    const uint32_t mixed = left ^ (philox4x32(seed_, counter)[0] & static_cast<uint32_t>(mask));
    left = std::exchange(right, mixed);
  }
  if (!forward) std::swap(left, right);
  return uint64_t{left} << half_bits_ | right;
}

// Cycle walking (Black, Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002): the network permutes a domain
// of fewer than 4·size + 4 numbers; results outside [0, size) are permuted again until one falls inside.
uint64_t Permutation::operator()(uint64_t i) const {
  DDPM_CHECK(i < size_, "index {} of a permutation of {} numbers", i, size_);
  do i = round_trip(i, true);
  while (i >= size_);
  return i;
}

uint64_t Permutation::inverse(uint64_t i) const {
  DDPM_CHECK(i < size_, "index {} of a permutation of {} numbers", i, size_);
  do i = round_trip(i, false);
  while (i >= size_);
  return i;
}

}  // namespace ddpm::base
