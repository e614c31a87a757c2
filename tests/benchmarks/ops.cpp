// Times the CPU's own operations against ATen's, in turns within one process, and against what the machine can do.
//
//   OMP_NUM_THREADS=2 bench_ops [REPEATS]
//   OMP_NUM_THREADS=1 bench_ops REPEATS sizes    attention with heads of more sizes, also those that go to ATen
//
// Prints a Markdown table: median milliseconds (least to largest) of forward and backward, and the median ratio of the
// pairs. Measured limits come first: copying between two buffers that no cache holds, and multiply-adds in registers.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "bench/spread.h"
#include "nn/ops/cpu/attention.h"
#include "nn/ops/float_products.h"
#include "nn/ops/group_norm_silu.h"
#include "nn/ops/winograd.h"

namespace {

using ddpm::bench::Spread;
using ddpm::bench::spread_of;
using ddpm::nn::Activation;
using torch::autograd::variable_list;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string text(const Spread& s, const char* format = "%.2f (%.2f to %.2f)") {
  char line[96];
  std::snprintf(line, sizeof line, format, s.median, s.lowest, s.highest);
  return line;
}

/// Milliseconds of one forward and one backward pass.
struct Times {
  double forward, backward;
};

using Operation = std::function<variable_list(const variable_list&)>;

/// `gradients`: of the results.
Times time_once(const Operation& operation, const variable_list& inputs, const variable_list& gradients) {
  for (const at::Tensor& t : inputs) t.mutable_grad().reset();
  const auto start = Clock::now();
  const variable_list results = operation(inputs);
  const double forward = milliseconds_since(start);
  const auto middle = Clock::now();
  torch::autograd::backward(results, gradients);
  return {forward, milliseconds_since(middle)};
}

struct Work {
  double forward, backward;  ///< 10^6 bytes or floating-point operations
  const char* unit;          ///< of the rate
};

void compare(const std::string& name, const Operation& ours, const Operation& atens, const variable_list& inputs,
             const Work& work, int repeats) {
  variable_list gradients;
  for (const at::Tensor& y : ours(inputs)) gradients.push_back(at::randn_like(y));
  for (const Operation* o : {&ours, &atens}) time_once(*o, inputs, gradients);
  std::vector<double> times[2][2];
  std::vector<double> ratios[2];
  for (int i = 0; i < repeats; ++i) {
    const Times a = time_once(ours, inputs, gradients);
    const Times b = time_once(atens, inputs, gradients);
    times[0][0].push_back(a.forward);
    times[0][1].push_back(a.backward);
    times[1][0].push_back(b.forward);
    times[1][1].push_back(b.backward);
    ratios[0].push_back(b.forward / a.forward);
    ratios[1].push_back(b.backward / a.backward);
  }
  for (int pass = 0; pass < 2; ++pass) {
    const Spread own = spread_of(times[0][pass]);
    std::printf("| %s | %d | %s | %s | %s | %s | %.1f %s |\n", name.c_str(), at::get_num_threads(),
                pass == 0 ? "forward" : "backward", text(own).c_str(), text(spread_of(times[1][pass])).c_str(),
                text(spread_of(ratios[pass]), "%.1f (%.1f to %.1f)").c_str(),
                (pass == 0 ? work.forward : work.backward) / own.median, work.unit);
  }
  std::fflush(stdout);
}

void compare_norms(int64_t images, int64_t channels, int64_t size, at::ScalarType dtype, int repeats) {
  const int64_t groups = 32;
  const auto leaf = [&](const at::Tensor& t) { return t.to(dtype).requires_grad_(); };
  const at::Tensor x = at::randn({images, channels, size, size}).contiguous(at::MemoryFormat::ChannelsLast);
  const ddpm::nn::GroupNormOptions options{.groups = groups, .activation = Activation::silu};
  const ddpm::nn::Partition whole;
  const auto ours = [&](const variable_list& t) -> variable_list {
    return {group_norm_silu(t[0], t[1], t[2], options, {}, whole)};
  };
  const auto by_aten = [&](const at::Tensor& normalised, const variable_list& t) {
    return at::silu(at::group_norm(normalised, groups, t[1], t[2], 1e-5, false));
  };
  const auto atens = [&](const variable_list& t) -> variable_list { return {by_aten(t[0], t)}; };
  const auto our_sum = [&](const variable_list& t) -> variable_list {
    const auto [y, sum] = residual_group_norm_silu({t[0], t[3]}, t[1], t[2], options, {}, whole);
    return {y, sum};
  };
  const auto atens_sum = [&](const variable_list& t) -> variable_list {
    const at::Tensor sum = t[0] + t[3];
    return {by_aten(sum, t), sum};
  };
  const variable_list inputs = {leaf(x), leaf(at::ones({channels})), leaf(at::zeros({channels})),
                                x.flip(0).contiguous(at::MemoryFormat::ChannelsLast).to(dtype)};
  const double megabytes = static_cast<double>(x.numel() * static_cast<int64_t>(c10::elementSize(dtype))) / 1e6;
  const std::string name = "norm, " + std::to_string(images) + " x " + std::to_string(channels) + " channels, " +
                           std::to_string(size) + "², " + c10::toString(dtype);
  compare(name, ours, atens, inputs, {2 * megabytes, 3 * megabytes, "GB/s"}, repeats);
  compare("sum and " + name, our_sum, atens_sum, inputs, {4 * megabytes, 4 * megabytes, "GB/s"}, repeats);
}

void compare_attention(int64_t images, int64_t heads, int64_t size, int64_t positions, at::ScalarType dtype,
                       int repeats) {
  variable_list inputs;
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(at::randn({images, positions, heads * size}).to(dtype).requires_grad_());
  }
  const auto ours = [&](const variable_list& t) -> variable_list {
    return {ddpm::nn::cpu::attention(t[0], t[1], t[2], heads)};
  };
  const auto atens = [&](const variable_list& t) -> variable_list {
    const auto split = [&](const at::Tensor& x) { return x.view({images, positions, heads, size}).transpose(1, 2); };
    return {at::scaled_dot_product_attention(split(t[0]), split(t[1]), split(t[2])).transpose(1, 2).reshape_as(t[0])};
  };
  const auto products = static_cast<double>(2 * images * heads * size * positions * positions) / 1e6;
  const std::string name = "attention, " + std::to_string(images) + " x " + std::to_string(heads) + " heads of " +
                           std::to_string(size) + ", " + std::to_string(positions) + " positions, " +
                           c10::toString(dtype);
  compare(name, ours, atens, inputs, {2 * products, 5 * products, "GFLOP/s"}, repeats);
}

/// With the operations of a plain convolution, of which Winograd's needs a quarter.
void compare_convolutions(int64_t images, int64_t in, int64_t out, int64_t size, at::ScalarType dtype, int repeats) {
  const auto leaf = [&](const at::Tensor& t) { return t.to(dtype).requires_grad_(); };
  const variable_list inputs = {leaf(at::randn({images, in, size, size}).contiguous(at::MemoryFormat::ChannelsLast)),
                                leaf(at::randn({out, in, 3, 3})), leaf(at::randn({out}))};
  const auto ours = [](const variable_list& t) -> variable_list {
    return {ddpm::nn::winograd_convolution(t[0], t[1], t[2])};
  };
  const auto atens = [](const variable_list& t) -> variable_list { return {at::conv2d(t[0], t[1], t[2], 1, 1)}; };
  const auto products = static_cast<double>(2 * images * in * out * size * size * 9) / 1e6;
  const std::string name = "convolution, " + std::to_string(images) + " x " + std::to_string(in) + " to " +
                           std::to_string(out) + " channels, " + std::to_string(size) + "², " + c10::toString(dtype);
  compare(name, ours, atens, inputs, {products, 2 * products, "GFLOP/s"}, repeats);
}

/// Copies 256 MiB: 10^9 bytes read and written per second.
double copy_rate(int repeats) {
  const int64_t floats = int64_t{1} << 26;
  const at::Tensor from = at::ones({floats});
  const at::Tensor to = at::zeros({floats});
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    to.copy_(from);
    times.push_back(milliseconds_since(start));
  }
  return 8.0 * static_cast<double>(floats) / 1e6 / spread_of(times).median;
}

#if defined(__x86_64__)
constexpr int64_t kRounds = 20'000'000;

typedef float Floats8 __attribute__((vector_size(32)));
typedef float Floats16 __attribute__((vector_size(64)));

/// Ten independent chains of multiply-adds of vectors.
template <typename Floats>
[[gnu::always_inline]] inline float multiply_adds(float seed) {
  Floats sums[10];
  const Floats factor = Floats{} + (1.0F - seed);
  for (int i = 0; i < 10; ++i) sums[i] = Floats{} + (seed + static_cast<float>(i));
  for (int64_t round = 0; round < kRounds; ++round) {
    for (Floats& sum : sums) sum = sum * factor + factor;
  }
  Floats total = {};
  for (const Floats& sum : sums) total += sum;
  return total[0];
}

[[gnu::target("avx2,fma"), gnu::noinline]] float multiply_adds_avx2(float seed) { return multiply_adds<Floats8>(seed); }
[[gnu::target("avx512f,fma"), gnu::noinline]] float multiply_adds_avx512(float seed) {
  return multiply_adds<Floats16>(seed);
}

/// 10^9 floating-point operations per second on all threads.
double multiply_add_rate(int repeats) {
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  const auto work = wide ? multiply_adds_avx512 : multiply_adds_avx2;
  std::vector<double> times;
  const int threads = at::get_num_threads();
  std::vector<float> results(static_cast<std::size_t>(threads));
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) results[static_cast<std::size_t>(t)] = work(1e-6F);
    });
    times.push_back(milliseconds_since(start));
  }
  return static_cast<double>(threads) * 10 * (wide ? 16 : 8) * 2 * static_cast<double>(kRounds) / 1e6 /
         spread_of(times).median;
}
#endif

void compare_sizes_of_heads(int repeats) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t size : {8, 16, 32, 64, 128, 256}) {
      for (const int64_t positions : {64, 256, 1024}) {
        compare_attention(1, 256 / size, size, positions, dtype, repeats);
      }
    }
  }
}

void compare_operations(int repeats) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    // In bf16 ATen's takes seconds where the processor has no instructions for it.
    if (!ddpm::nn::wants_float_products(at::zeros({1}, dtype))) {
      compare_convolutions(8, 64, 64, 32, dtype, repeats);
      compare_convolutions(8, 128, 128, 16, dtype, repeats);
      compare_convolutions(8, 128, 128, 8, dtype, repeats);
      compare_convolutions(8, 256, 128, 16, dtype, repeats);
      compare_convolutions(8, 512, 512, 8, dtype, repeats);
      compare_convolutions(1, 128, 128, 8, dtype, repeats);
    }
    compare_norms(8, 128, 32, dtype, repeats);
    compare_norms(8, 64, 32, dtype, repeats);
    compare_norms(8, 256, 8, dtype, repeats);
    compare_attention(8, 16, 8, 256, dtype, repeats);
    compare_attention(8, 8, 32, 64, dtype, repeats);
    compare_attention(8, 4, 64, 256, dtype, repeats);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 15;
  const bool sizes = argc > 2 && std::string(argv[2]) == "sizes";
  const int most = at::get_num_threads();
  for (int threads = 1; threads <= most; threads *= 2) {
    at::set_num_threads(threads);
    std::printf("%d thread(s): copying %.1f GB/s", threads, copy_rate(repeats));
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
      std::printf(", multiply-adds in registers %.0f GFLOP/s", multiply_add_rate(repeats));
    }
#endif
    std::printf("\n");
  }
  std::printf(
      "\n| operation | threads | pass | ours, ms | ATen, ms | ATen / ours | ours |\n|---|---|---|---|---|---|---|\n");
  for (int threads = 1; threads <= most; threads *= 2) {
    at::set_num_threads(threads);
    if (sizes) {
      compare_sizes_of_heads(repeats);
    } else {
      compare_operations(repeats);
    }
  }
}
