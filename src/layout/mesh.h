// The ranks as a grid: each way to share one training's work is an axis, and its degree is the number of ranks along
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddpm::layout {

/// A way to share the work. Each has a row in mesh.cpp, which names the configuration key of its degree.
enum class Axis : uint8_t {
  pipeline,   ///< ranks that hold a run of the model's units each (layout/pipeline.h), and see the same images
  island,     ///< copies of the model's state that are updated each on its own, of other images, and averaged at times
  replicate,  ///< copies of the model's state, each of which sees other images
  shard,      ///< ranks that hold one copy of the state between them, and see other images each
  spatial,    ///< ranks that hold a tile each of the same images (layout/tiling.h), and the same part of the state
  tensor      ///< ranks that hold a part of each block's channels each (nn/partition.h), of the same images
};

/// A set of axes. An Axis is a set of one.
class Axes {
 public:
  constexpr Axes(Axis axis) : bits_(1U << static_cast<unsigned>(axis)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] constexpr bool contains(Axis axis) const { return (bits_ & Axes(axis).bits_) != 0; }
  friend constexpr Axes operator|(Axes a, Axes b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  unsigned bits_;
};

/// The axes along which ranks see different images of a global batch.
inline constexpr Axes kDataParallel = Axes(Axis::island) | Axes(Axis::replicate) | Axes(Axis::shard);
/// The axes along which ranks hold the same part of the state.
inline constexpr Axes kReplicas = Axes(Axis::replicate) | Axes(Axis::spatial);
/// The axes along which ranks sum their gradients: of other images, or of other pixels.
inline constexpr Axes kGradients = Axes(Axis::replicate) | Axes(Axis::shard) | Axes(Axis::spatial);
/// The axes of the ranks that make one update together.
inline constexpr Axes kIsland = kGradients | Axes(Axis::tensor) | Axes(Axis::pipeline);

struct Degree {
  Axis axis = Axis::replicate;
  int64_t ranks = 1;
};

/// Ranks are counted along the last axis first, so that its groups are ranks in a row, which a node holds together. For
/// a set of axes the ranks fall into groups: those of one group differ in their coordinates along these axes only.
class Mesh {
 public:
  Mesh() = default;  ///< one rank
  /// Outermost axis first. Throws ConfigError with what refusal() says.
  Mesh(std::vector<Degree> degrees, int64_t ranks);
  /// Why these degrees do not make a grid of `ranks`, with all the numbers; "" if they do.
  static std::string refusal(std::span<const Degree> degrees, int64_t ranks);

  [[nodiscard]] int64_t size() const;
  /// Ranks of each group along `axes`; 1 for axes that the mesh does not have.
  [[nodiscard]] int64_t degree(Axes axes) const;
  /// Place of `rank` within its group along `axes`, from 0 to degree(axes) - 1. A single axis: its coordinate there.
  [[nodiscard]] int64_t coordinate(int64_t rank, Axes axes) const;
  /// Number of the group along `axes` that `rank` is in, from 0 to size() / degree(axes) - 1.
  [[nodiscard]] int64_t group(int64_t rank, Axes axes) const;
  /// The ranks of group number `group` along `axes`, in the order of their coordinates, which is ascending.
  [[nodiscard]] std::vector<int64_t> ranks(int64_t group, Axes axes) const;

 private:
  /// `rank` in mixed radix, over the axes that `axes` contains or over the others.
  [[nodiscard]] int64_t number(int64_t rank, Axes axes, bool contained) const;

  std::vector<Degree> degrees_;
};

/// Which of the degree(kDataParallel) shares of dealt images (layout/dealt_batches.h) `rank` takes: islands take turns,
/// so that the island that an image falls to, whose weights may be its own, does not depend on how many ranks it has.
int64_t image_share(const Mesh& mesh, int64_t rank);

}  // namespace ddpm::layout
