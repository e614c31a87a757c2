#include "denoise/weight_digest.h"

#include <cstddef>

#include <fmt/format.h>

namespace ddpm::denoise {

void WeightDigest::add(const std::string& name, const at::Tensor& values) {
  const at::Tensor host = values.to(at::kCPU).contiguous();
  digest_.update(fmt::format("{} {}\n", name, static_cast<int>(host.scalar_type())));
  digest_.update({static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()});
}

}  // namespace ddpm::denoise
