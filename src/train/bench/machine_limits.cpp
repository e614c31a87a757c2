#include "train/bench/machine_limits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "comm/collectives.h"
#include "nn/ops/float_products.h"

namespace ddpm::train::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Repetitions per second at best, over about half a second.
double best_rate(c10::Device device, const std::function<void()>& work) {
  constexpr double kSeconds = 0.5;
  const auto synchronize = [device] {
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  };
  double best = 0.0;
  work();  // generated kernels, first touch of memory
  synchronize();
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    work();
    synchronize();
    best = std::max(best, 1.0 / std::chrono::duration<double>(Clock::now() - start).count());
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < kSeconds);
  return best;
}

}  // namespace

MachineLimits measure_limits(c10::Device device, c10::ScalarType dtype, comm::Communicator& world) {
  const at::NoGradGuard no_grad;
  const int64_t side = device.is_cpu() ? 1024 : 8192;
  const at::TensorOptions options = at::TensorOptions().device(device).dtype(dtype);
  const bool in_float = nn::wants_float_products(at::empty({0}, options));
  const at::Tensor a = at::ones({side, side}, in_float ? options.dtype(at::kFloat) : options);
  const at::Tensor b = at::ones_like(a);
  at::Tensor product = at::empty_like(a);
  const auto cube = static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side);

  constexpr int64_t kCopied = int64_t{128} << 20;
  const at::Tensor from = at::ones({kCopied}, options.dtype(at::kByte));
  at::Tensor to = at::empty_like(from);

  std::array<double, 2> limits{};
  world.barrier().wait();
  limits[0] = 2.0 * cube * best_rate(device, [&] { at::matmul_out(product, a, b); });
  world.barrier().wait();
  limits[1] = 2.0 * static_cast<double>(kCopied) * best_rate(device, [&] { to.copy_(from); });
  comm::all_reduce(world, limits, comm::ReduceOp::sum);
  return {limits[0], limits[1]};
}

}  // namespace ddpm::train::bench
