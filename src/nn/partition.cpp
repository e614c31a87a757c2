#include "nn/partition.h"

namespace ddpm::nn {

Halo Partition::halo(const at::Tensor& x, int64_t /*above*/, int64_t /*below*/) const { return {x, false}; }

}  // namespace ddpm::nn
