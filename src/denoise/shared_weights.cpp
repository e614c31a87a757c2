#include "denoise/shared_weights.h"

#include <utility>

#include <ATen/ops/empty.h>

#include "comm/collectives.h"

namespace ddpm::denoise {

SharedWeights::SharedWeights(const base::Path& folder, interop::ExpectedShapes expected, comm::Communicator& world)
    : SharedWeights([&folder, &expected] { return interop::UNetWeights(folder, expected); }, expected, world) {}

SharedWeights::SharedWeights(const std::function<interop::UNetWeights()>& open, interop::ExpectedShapes expected,
                             comm::Communicator& world)
    : expected_(std::move(expected)), world_(world) {
  dtypes_ = comm::agree_on_root(world, [&] {
    file_ = open();
    std::string all;
    for (const auto& [name, shape] : expected_) all += static_cast<char>(file_->dtype_of(name));
    return all;
  });
}

void SharedWeights::for_each(const std::function<void(const std::string& name, const at::Tensor& values)>& use) const {
  auto dtype = dtypes_.begin();
  for (const auto& [name, shape] : expected_) {
    at::Tensor values;
    comm::do_on_root(world_, [&] { values = file_->read(name); });
    if (!values.defined()) values = at::empty(shape, static_cast<at::ScalarType>(*dtype));
    ++dtype;
    const auto bytes = static_cast<int64_t>(values.nbytes());
    world_.broadcast({values.mutable_data_ptr(), bytes, base::DType::u8}, /*root=*/0).wait();
    use(name, values);
  }
}

}  // namespace ddpm::denoise
