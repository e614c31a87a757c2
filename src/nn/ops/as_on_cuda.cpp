#include "nn/ops/as_on_cuda.h"

#include <utility>

namespace ddpm::nn {
namespace {

thread_local bool as_on_cuda = false;

}  // namespace

AsOnCuda::AsOnCuda() : before_(std::exchange(as_on_cuda, true)) {}

AsOnCuda::~AsOnCuda() { as_on_cuda = before_; }

bool computes_as_on_cuda(const at::Tensor& x) { return is_on_gpu(x) || (as_on_cuda && x.is_cpu()); }

}  // namespace ddpm::nn
