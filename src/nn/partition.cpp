#include "nn/partition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "base/error.h"

namespace ddpm::nn {
namespace {

class WholeImage : public Partition {
 public:
  explicit WholeImage(const ImageShape& shape) : shape_(shape) {}
  [[nodiscard]] Halo halo(const at::Tensor& x, ImageAxis axis, int64_t before, int64_t after) const override {
    return shape_.is_periodic(axis) ? Halo{wrapped(x, axis, before, after), true} : Halo{x, false};
  }
  [[nodiscard]] int64_t depth(const at::Tensor& x) const override {
    return shape_.depth == 0 ? 0 : shape_.depth * x.size(3) / shape_.width;
  }

 private:
  ImageShape shape_;
};

}  // namespace

Halo Partition::halo(const at::Tensor& x, ImageAxis /*axis*/, int64_t /*before*/, int64_t /*after*/) const {
  return {x, false};
}

Halos Partition::halos(const at::Tensor& x, std::span<const ImageAxis> axes, int64_t before, int64_t after) const {
  Halos all{x, {}};
  for (const ImageAxis axis : axes) {
    const auto [wide, attached] = halo(all.x, axis, before, after);
    all.x = wide;
    all.attached.push_back(attached);
  }
  return all;
}

std::unique_ptr<Trade> Partition::trade(std::span<const Offset> /*with*/,
                                        std::span<const at::Tensor> /*pieces*/) const {
  throw base::InternalError("a whole image has no neighbours to trade with");
}

std::unique_ptr<Partition> whole_image(const ImageShape& shape) { return std::make_unique<WholeImage>(shape); }

const Partition& whole_image() {
  static const Partition kWhole;
  return kWhole;
}

at::Tensor wrapped(const at::Tensor& x, ImageAxis axis, int64_t before, int64_t after) {
  const auto dim = static_cast<int64_t>(axis);
  std::vector<at::Tensor> parts;
  if (before > 0) parts.push_back(x.narrow(dim, x.size(dim) - before, before));
  parts.push_back(x);
  if (after > 0) parts.push_back(x.narrow(dim, 0, after));
  return parts.size() == 1 ? x : at::cat(parts, dim);
}

}  // namespace ddpm::nn
