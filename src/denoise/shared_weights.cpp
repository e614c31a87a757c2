#include "denoise/shared_weights.h"

#include <optional>

#include <ATen/ops/empty.h>

#include "comm/collectives.h"

namespace ddpm::denoise {

void for_each_weight(const base::Path& folder, const interop::ExpectedShapes& expected, comm::Communicator& world,
                     const std::function<void(const std::string& name, const at::Tensor& values)>& use) {
  std::optional<interop::UNetWeights> file;  // of rank 0 alone
  const std::string dtypes = comm::agree_on_root(world, [&] {
    file.emplace(folder, expected);
    std::string all;
    for (const auto& [name, shape] : expected) all += static_cast<char>(file->dtype_of(name));
    return all;
  });
  auto dtype = dtypes.begin();
  for (const auto& [name, shape] : expected) {
    at::Tensor values;
    comm::do_on_root(world, [&] { values = file->read(name); });
    if (!values.defined()) values = at::empty(shape, static_cast<at::ScalarType>(*dtype));
    ++dtype;
    const auto bytes = static_cast<int64_t>(values.nbytes());
    world.broadcast({values.mutable_data_ptr(), bytes, base::DType::u8}, /*root=*/0).wait();
    use(name, values);
  }
}

}  // namespace ddpm::denoise
