#include "bench/machine_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/clock.h"
#include "base/random.h"
#include "comm/collectives.h"
#include "nn/ops/float_products.h"

namespace ddpm::bench {
namespace {

/// How often per second all ranks do `work` at best, all together: rounds of some repetitions begin at a barrier and
/// last as long as the slowest rank takes. Collective.
double best_rate(c10::Device device, comm::Communicator& world, const std::function<void()>& work) {
  constexpr double kSeconds = 0.5;
  constexpr double kRound = 0.05;  // so long that ranks leaving the barrier one after another do not count
  const auto slowest = [&](int64_t repetitions) {
    world.barrier().wait();
    const auto start = base::Clock::now();
    for (int64_t i = 0; i < repetitions; ++i) work();
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    const double seconds = base::seconds_since(start);
    return comm::all_reduce(world, seconds, comm::ReduceOp::max);
  };
  slowest(1);  // generated kernels, first touch of memory
  const auto repetitions = static_cast<int64_t>(std::ceil(kRound / slowest(1)));
  double best = 0.0;
  for (double total = 0.0; total < kSeconds;) {
    const double seconds = slowest(repetitions);
    best = std::max(best, static_cast<double>(repetitions * world.size()) / seconds);
    total += seconds;
  }
  return best;
}

}  // namespace

at::Tensor normal_values(at::IntArrayRef shape, const at::TensorOptions& options) {
  constexpr int64_t kDrawn = int64_t{1} << 20;
  const int64_t elements = c10::multiply_integers(shape);
  const at::Tensor drawn = at::empty({std::min(kDrawn, elements)}, at::kFloat);
  const base::RandomSequence numbers(/*seed=*/0, base::Stream::noise, /*step=*/0, /*position=*/0);
  numbers.fill_normal({drawn.mutable_data_ptr<float>(), static_cast<std::size_t>(drawn.numel())});
  const int64_t repeats = (elements + kDrawn - 1) / kDrawn;
  return drawn.to(options.device(), options.dtype().toScalarType())
      .repeat({repeats})
      .narrow(0, 0, elements)
      .view(shape);
}

namespace {

double matrix_flops(const at::TensorOptions& options, comm::Communicator& world) {
  const int64_t side = options.device().is_cpu() ? 1024 : 8192;
  const at::Tensor a = normal_values({side, side}, options);
  const at::Tensor b = normal_values({side, side}, options);
  at::Tensor product = at::empty_like(a);
  const double flops = 2.0 * std::pow(static_cast<double>(side), 3);
  return flops * best_rate(options.device(), world, [&] { at::matmul_out(product, a, b); });
}

double convolution_flops(const at::TensorOptions& options, comm::Communicator& world) {
  constexpr int64_t kChannels = 256;
  constexpr int64_t kSide = 32;
  const int64_t images = options.device().is_cpu() ? 8 : 256;
  const auto channels_last = at::MemoryFormat::ChannelsLast;
  const at::Tensor x = normal_values({images, kChannels, kSide, kSide}, options).contiguous(channels_last);
  const at::Tensor weight = normal_values({kChannels, kChannels, 3, 3}, options).contiguous(channels_last);
  const auto flops = 2.0 * static_cast<double>(images * kSide * kSide * kChannels * kChannels * 9);
  return flops * best_rate(options.device(), world, [&] { at::conv2d(x, weight, {}, /*stride=*/1, /*padding=*/1); });
}

/// Returns the best rate of passes over `bytes` of memory: writing in place, copying, reading. A copy alone is not an
/// upper bound: a processor first reads the lines that it will write, which an update in place has to read anyway, so
/// an update can reach up to 3/2 of a copy's rate. Smaller buffers stay in a cache, as the state of a small model does.
double memory_bytes_per_second(c10::Device device, comm::Communicator& world, int64_t bytes) {
  const auto elements = std::max<int64_t>(int64_t{1} << 14, bytes / static_cast<int64_t>(sizeof(float)));
  at::Tensor all = at::ones({elements}, at::TensorOptions().device(device).dtype(at::kFloat));
  const at::Tensor from = all.narrow(0, 0, elements / 2);
  at::Tensor to = all.narrow(0, elements - elements / 2, elements / 2);
  at::Tensor sum = at::empty({}, all.options());
  const auto moved = static_cast<double>(all.nbytes());
  const double in_place = 2.0 * moved * best_rate(device, world, [&] { all.mul_(1.0F); });
  const double copied = moved * best_rate(device, world, [&] { to.copy_(from); });
  const double read = moved * best_rate(device, world, [&] { at::sum_out(sum, all, at::IntArrayRef{}); });
  return std::max({in_place, copied, read});
}

}  // namespace

MachineLimits measure_limits(c10::Device device, c10::ScalarType dtype, comm::Communicator& world,
                             int64_t state_bytes) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = at::TensorOptions().device(device).dtype(dtype);
  const bool in_float = nn::wants_float_products(at::empty({0}, options));
  const at::TensorOptions product_options = in_float ? options.dtype(at::kFloat) : options;
  const double product = matrix_flops(product_options, world);
  const double convolution = convolution_flops(product_options, world);
  double memory = memory_bytes_per_second(device, world, state_bytes);
  // Small passes cost a GPU their launch, which an update has fewer of.
  if (!device.is_cpu()) memory = std::max(memory, memory_bytes_per_second(device, world, int64_t{1} << 30));
  return {std::max(product, convolution), memory};
}

}  // namespace ddpm::bench
