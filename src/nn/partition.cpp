#include "nn/partition.h"

namespace ddpm::nn {

Halo Partition::halo(const at::Tensor& x, int64_t /*above*/, int64_t /*below*/) const { return {x, false}; }

const Partition& whole_image() {
  static const Partition whole;
  return whole;
}

}  // namespace ddpm::nn
