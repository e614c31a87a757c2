#include "nn/partition.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

namespace ddpm::nn {
namespace {

/// x with its last `before` and its first `after` entries of axis `dim` on the other side of it.
at::Tensor wrapped(const at::Tensor& x, int64_t dim, int64_t before, int64_t after) {
  std::vector<at::Tensor> parts;
  if (before > 0) parts.push_back(x.narrow(dim, x.size(dim) - before, before));
  parts.push_back(x);
  if (after > 0) parts.push_back(x.narrow(dim, 0, after));
  return parts.size() == 1 ? x : at::cat(parts, dim);
}

class WholeImage : public Partition {
 public:
  explicit WholeImage(const ImageShape& shape) : shape_(shape) {}
  [[nodiscard]] Halo halo(const at::Tensor& x, int64_t above, int64_t below) const override {
    return shape_.periodic_height ? Halo{wrapped(x, -2, above, below), true} : Halo{x, false};
  }
  [[nodiscard]] Halo columns(const at::Tensor& x, int64_t left, int64_t right) const override {
    return shape_.periodic_width ? Halo{wrapped(x, -1, left, right), true} : Halo{x, false};
  }
  [[nodiscard]] Halo layers(const at::Tensor& x, int64_t before, int64_t after) const override {
    return shape_.periodic_depth ? Halo{wrapped(x, -3, before, after), true} : Halo{x, false};
  }
  [[nodiscard]] int64_t depth(const at::Tensor& x) const override {
    return shape_.depth == 0 ? 0 : shape_.depth * x.size(3) / shape_.width;
  }

 private:
  ImageShape shape_;
};

}  // namespace

Halo Partition::halo(const at::Tensor& x, int64_t /*above*/, int64_t /*below*/) const { return {x, false}; }

Halo Partition::columns(const at::Tensor& x, int64_t /*left*/, int64_t /*right*/) const { return {x, false}; }

Halo Partition::layers(const at::Tensor& x, int64_t /*before*/, int64_t /*after*/) const { return {x, false}; }

std::unique_ptr<Partition> whole_image(const ImageShape& shape) { return std::make_unique<WholeImage>(shape); }

const Partition& whole_image() {
  static const Partition whole;
  return whole;
}

}  // namespace ddpm::nn
