// How the pixels of an image, and the channels inside of blocks, lie on ranks, as the layers see it. Operations that
// look beyond their own ask here.
//
// Images are cut into tiles: their axes each into a few parts, and a rank holds one part of each. Blocks are cut into
// parts of their inner channels, those between the first and the second convolution of a residual block, or between
// the projections of attention: a first layer is cut by its outputs, a second by its inputs, and there results are
// summed (Shoeybi et al. 2019, arXiv 1909.08053, section 3). All verbs but gather_numbers() are differentiable where
// they communicate. This base class is the identity: the whole image is here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// An axis of pixels, by its place from the end of [N, C, H, W] and [N, C, D, H, W].
enum class ImageAxis : int8_t { width = -1, height = -2, depth = -3 };

/// An input with the pixels that a convolution needs before and behind its own along an axis. Pixels outside the image
/// are zeros; those that are not attached yet are left to the convolution's own padding.
struct Halo {
  at::Tensor x;  ///< [..., before + extent + after, ...] if attached, otherwise the input itself
  bool attached = false;
};
/// An input with halos along several axes.
struct Halos {
  at::Tensor x;
  std::vector<bool> attached;  ///< along each
};

/// Where a neighbour lies: before (-1), beside (0) or behind (1) along width, height and depth; not 0 in all.
using Offset = std::array<int, 3>;

/// Border pixels on their way to and from neighbours: see Partition::trade().
class Trade {
 public:
  Trade() = default;
  Trade(const Trade&) = delete;
  Trade& operator=(const Trade&) = delete;
  virtual ~Trade() = default;
  /// What came from each neighbour. Call it once.
  virtual std::vector<at::Tensor> wait() = 0;
};

/// Where a tile's pixels lie along an axis of the image.
struct TilePlace {
  int64_t first = 0;
  int64_t total = 0;
};

class Partition {
 public:
  Partition() = default;
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;
  virtual ~Partition() = default;

  /// Number of tiles; 1: nothing is cut and the verbs return their input.
  [[nodiscard]] virtual int64_t tiles() const { return 1; }
  /// Which of them is here.
  [[nodiscard]] virtual int64_t tile() const { return 0; }
  /// Whether tensors that are not on a GPU, such as those of the meta device, stand for some that are: what operations
  /// keep for backward is then what they keep there.
  [[nodiscard]] virtual bool stands_for_gpu() const { return false; }
  /// The tile that is here of whole images x [N, C, H, W].
  [[nodiscard]] virtual at::Tensor cut(const at::Tensor& x) const { return x; }
  /// Whole images, on every rank, of which each holds its tile x [N, C, H, W]: the inverse of cut().
  [[nodiscard]] virtual at::Tensor whole(const at::Tensor& x) const { return x; }
  /// Convolution: attaches `before` and `after` pixels of the neighbouring tiles to x along an axis, or of the image's
  /// other side where it is periodic.
  [[nodiscard]] virtual Halo halo(const at::Tensor& x, ImageAxis axis, int64_t before, int64_t after) const;
  /// Along several axes one after the other, so that the corners come along.
  [[nodiscard]] virtual Halos halos(const at::Tensor& x, std::span<const ImageAxis> axes, int64_t before,
                                    int64_t after) const;
  /// Where something lies beside the tile: other tiles, or its own other side along axes that are periodic and not cut.
  /// None where there is one tile. The list lives as long as the partition.
  [[nodiscard]] virtual std::span<const Offset> neighbours() const { return {}; }
  /// Begins to send to each of these neighbours a piece, and to receive the one that it sends here, which has the same
  /// sizes, while the caller goes on to compute. Pieces are channels-last. Not differentiable.
  [[nodiscard]] virtual std::unique_ptr<Trade> trade(std::span<const Offset> with,
                                                     std::span<const at::Tensor> pieces) const;
  /// The layers of a volume, which lie one below the other in the rows of x [N, C, D · H, W]; 0: images are flat.
  [[nodiscard]] virtual int64_t depth(const at::Tensor& /*x*/) const { return 0; }
  /// The sum of x over the tiles, with equal bits on each.
  [[nodiscard]] virtual at::Tensor sum(const at::Tensor& x) const { return x; }
  /// Attention: the positions of all tiles, x [N, positions, C] concatenated along dimension 1. The keys and values of
  /// one tile keep their order; that of the tiles is theirs.
  [[nodiscard]] virtual at::Tensor gather(const at::Tensor& x) const { return x; }
  /// Group statistics, losses: x of each tile, [tiles, ...], without a gradient.
  [[nodiscard]] virtual at::Tensor gather_numbers(const at::Tensor& x) const { return x.unsqueeze(0); }
  /// Where this tile's `extent` pixels lie along an axis, at any resolution.
  [[nodiscard]] virtual TilePlace place(ImageAxis /*axis*/, int64_t extent) const { return {0, extent}; }

  /// Parts into which inner channels are cut; 1: the two verbs below return their input.
  [[nodiscard]] virtual int64_t channel_parts() const { return 1; }
  /// Which of them is here.
  [[nodiscard]] virtual int64_t channel_part() const { return 0; }
  /// x, alike on the ranks of all parts, on its way to layers that are cut by their outputs. Its gradient is the sum of
  /// what the parts find.
  [[nodiscard]] virtual at::Tensor to_channel_parts(const at::Tensor& x) const { return x; }
  /// The sum over the parts of what layers that are cut by their inputs find, with equal bits on each. Its gradient,
  /// which is alike on all ranks, is handed on.
  [[nodiscard]] virtual at::Tensor sum_channel_parts(const at::Tensor& x) const { return x; }
};

/// What whole images are like.
struct ImageShape {
  int64_t depth = 0;  ///< layers of a volume; 0 for flat images
  int64_t width = 0;  ///< width of a volume, at the resolution that has that depth
  /// Axes beyond whose border lie the pixels of the other side.
  bool periodic_depth = false;
  bool periodic_height = false;
  bool periodic_width = false;

  [[nodiscard]] bool is_periodic(ImageAxis axis) const {
    return axis == ImageAxis::width ? periodic_width : axis == ImageAxis::height ? periodic_height : periodic_depth;
  }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};
std::unique_ptr<Partition> whole_image(const ImageShape& shape);

/// The identity, for graphs that outlive their maker.
const Partition& whole_image();

/// x with its last `before` and its first `after` pixels along an axis on the other side of it.
at::Tensor wrapped(const at::Tensor& x, ImageAxis axis, int64_t before, int64_t after);

}  // namespace ddpm::nn
