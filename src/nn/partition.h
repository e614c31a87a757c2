// How the pixels of an image lie on ranks, as the layers see it. Operations that look beyond their own rows ask here.
//
// Images are cut into bands of rows, the first band on rank 0. All three verbs are differentiable where they
// communicate. This base class is the identity: the whole image is here.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// An input with the rows that a convolution needs above and below its own. Rows outside the image are zeros; those
/// that are not attached yet are left to the convolution's own padding.
struct Halo {
  at::Tensor x;  ///< [..., above + H + below, W] if attached, otherwise the input itself; columns and layers likewise
  bool attached = false;
};

/// Where a band's rows lie in the image.
struct Rows {
  int64_t first = 0;
  int64_t total = 0;
};

class Partition {
 public:
  Partition() = default;
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;
  virtual ~Partition() = default;

  /// Number of row bands; 1: nothing is cut and the verbs return their input.
  [[nodiscard]] virtual int64_t bands() const { return 1; }
  /// Convolution: attaches `above` and `below` rows of the neighbouring bands to x [N, C, H, W].
  [[nodiscard]] virtual Halo halo(const at::Tensor& x, int64_t above, int64_t below) const;
  /// Convolution: attaches `left` and `right` columns, where the image is periodic along its width.
  [[nodiscard]] virtual Halo columns(const at::Tensor& x, int64_t left, int64_t right) const;
  /// Convolution: attaches layers in front of x [N, C, D, H, W] and behind it, where the volume is periodic along its
  /// depth.
  [[nodiscard]] virtual Halo layers(const at::Tensor& x, int64_t before, int64_t after) const;
  /// The layers of a volume, which lie one below the other in the rows of x [N, C, D · H, W]; 0: images are flat.
  [[nodiscard]] virtual int64_t depth(const at::Tensor& /*x*/) const { return 0; }
  /// Group statistics: the sum of x over the bands, with equal bits on each.
  [[nodiscard]] virtual at::Tensor sum(const at::Tensor& x) const { return x; }
  /// Attention: the positions of all bands, x [N, positions, C] concatenated along dimension 1.
  [[nodiscard]] virtual at::Tensor gather(const at::Tensor& x) const { return x; }
  /// Dropout: the place of this band's `rows` rows.
  [[nodiscard]] virtual Rows rows(int64_t rows) const { return {0, rows}; }
};

/// What whole images are like.
struct ImageShape {
  int64_t depth = 0;  ///< of volumes; 0: they are flat
  int64_t width = 0;  ///< of volumes, at the resolution that has that depth
  /// Axes beyond whose border lie the pixels of the other side.
  bool periodic_depth = false;
  bool periodic_height = false;
  bool periodic_width = false;
};
std::unique_ptr<Partition> whole_image(const ImageShape& shape);

/// The identity, for graphs that outlive their maker.
const Partition& whole_image();

}  // namespace ddpm::nn
