// Counter-based random numbers: everything random in a run is a pure function of (seed, stream, step, position,
// element).
//
// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011). One call turns a
// 64-bit key (the run's seed) and a 128-bit counter {block, position, step, stream} into four 32-bit words; word w of
// block b is element 4 b + w. Ranks, micro-batch size and accumulation therefore cannot change any number.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace ddpm::base {

/// What a number is used for; numbers of different streams are independent.
enum class Stream : uint32_t {
  initial_weights = 1,  ///< position = parameter index, element = element of the parameter
  shuffle = 2,          ///< step = epoch
  flip = 3,
  timestep = 4,
  noise = 5,           ///< element = index in the image's global CHW order
  dropout = 6,         ///< plus the index of the dropout layer: see dropout_stream()
  sample_initial = 7,  ///< position = image index of the sample job
  sample_step = 8,     ///< step = sampler step
  class_dropout = 9,   ///< whether a label is replaced by the null class
  offset_noise = 10,
  condition_dropout = 11,    ///< whether an image's condition is left out
  crop = 12,                 ///< where `data create` crops: position = image index in the source, element = axis
  validation_timestep = 13,  ///< position = image index in the validation set, step 0
  validation_noise = 14,
  validation_offset_noise = 15,
  patch = 16,             ///< where the window of data.patch lies, plus the axis: see patch_stream()
  validation_patch = 20,  ///< likewise; position = image index in the validation set, step 0
  vertical_flip = 25,
  quarter_turns = 26,
  rank_ties = 28,  ///< which of equal values the truth comes after, in `eval`: position = condition, element = pixel
  evaluation_groups = 29,    ///< which samples `eval samples` leaves out together
  evaluation_subsets = 30,   ///< likewise: subsets of the kernel distance; step = subset, position = 0 samples, 1 data
  evaluation_features = 31,  ///< likewise: weights of the built-in features; step = scale, position = layer
};

/// The stream of the n-th dropout layer: each layer draws from its own.
constexpr Stream dropout_stream(uint32_t layer) { return static_cast<Stream>(0x10000U + layer); }

/// The stream of the windows' places along an axis of at most 4; `first` is patch or validation_patch.
constexpr Stream patch_stream(Stream first, uint32_t axis) {
  return static_cast<Stream>(static_cast<uint32_t>(first) + axis);
}

/// Four uniform 32-bit words of a 64-bit key and a 128-bit counter.
std::array<uint32_t, 4> philox4x32(uint64_t key, const std::array<uint32_t, 4>& counter);

/// The numbers of one (seed, stream, step, position).
class RandomSequence {
 public:
  RandomSequence(uint64_t seed, Stream stream, uint64_t step, uint64_t position);

  /// The four words of block b.
  [[nodiscard]] std::array<uint32_t, 4> block(uint32_t b) const;
  /// Word `element`, uniform over 32 bits.
  [[nodiscard]] uint32_t bits(uint64_t element) const;
  /// Uniform integer in [0, n), n < 2^32, by multiply-shift: identical on CPU and GPU.
  [[nodiscard]] uint32_t below(uint32_t n, uint64_t element = 0) const;
  /// Uniform in (0, 1): (word + 0.5) / 2^32.
  [[nodiscard]] double uniform(uint64_t element = 0) const;
  /// Standard normals of elements [first, first + out.size()); Box-Muller on the word pairs (0,1) and (2,3) of each
  /// block: with u and v = uniform() of a pair, its elements are sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi
  /// v), computed in double precision and rounded once. An element has the same bits on every processor, however the
  /// range is cut.
  void fill_normal(std::span<float> out, uint64_t first = 0) const;
  /// Uniform floats in [low, high) of elements [first, first + out.size()).
  void fill_uniform(std::span<float> out, float low, float high, uint64_t first = 0) const;

 private:
  uint64_t seed_;
  std::array<uint32_t, 4> counter_;  // {0, position, step, stream}
};

/// A pseudo-random permutation of [0, size) that needs no memory: a Philox-keyed Feistel network with cycle walking.
class Permutation {
 public:
  Permutation(uint64_t seed, Stream stream, uint64_t step, uint64_t position, uint64_t size);
  [[nodiscard]] uint64_t operator()(uint64_t i) const;
  [[nodiscard]] uint64_t inverse(uint64_t i) const;
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  [[nodiscard]] uint64_t round_trip(uint64_t i, bool forward) const;

  uint64_t size_;
  uint32_t half_bits_;
  uint64_t seed_;
  std::array<uint32_t, 4> counter_;
};

}  // namespace ddpm::base
