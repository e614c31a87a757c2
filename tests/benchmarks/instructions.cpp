// Runs pieces of ddpm's own code a fixed number of times under callgrind, which counts their instructions:
// instructions.py compares the counts with those recorded.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <valgrind/callgrind.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "data/prepare/resize.h"
#include "nn/ops/cpu/attention.h"
#include "nn/ops/group_norm_silu.h"
#include "nn/ops/winograd.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/ema.h"

namespace {

/// Counts what `work` does. A first run of it fills tables and caches of allocators.
void count(const std::string& name, const std::function<void()>& work) {
  work();
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  work();
  CALLGRIND_DUMP_STATS_AT(name.c_str());
  CALLGRIND_STOP_INSTRUMENTATION;
}

void count_passes(const std::string& name, const std::vector<at::Tensor>& inputs,
                  const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& operation) {
  std::vector<at::Tensor> results;
  count(name + " forward", [&] { results = operation(inputs); });
  std::vector<at::Tensor> gradients;
  gradients.reserve(results.size());
  for (const at::Tensor& y : results) gradients.push_back(at::ones_like(y));
  count(name + " backward", [&] {
    for (const at::Tensor& t : inputs) t.mutable_grad().reset();
    torch::autograd::backward(results, gradients, /*retain_graph=*/true);
  });
}

void count_norm(at::ScalarType dtype) {
  const int64_t channels = 64;
  const auto leaf = [&](const at::Tensor& t) { return t.to(dtype).requires_grad_(); };
  const at::Tensor x = at::arange(2 * channels * 16 * 16, at::kFloat).sin().view({2, channels, 16, 16});
  const std::vector<at::Tensor> inputs = {leaf(x.contiguous(at::MemoryFormat::ChannelsLast)),
                                          leaf(at::ones({channels})), leaf(at::zeros({channels}))};
  const ddpm::nn::GroupNormOptions options{.groups = 32, .activation = ddpm::nn::Activation::silu};
  const ddpm::nn::Partition whole;
  count_passes(std::string("norm ") + c10::toString(dtype), inputs, [&](const std::vector<at::Tensor>& t) {
    return std::vector{group_norm_silu(t[0], t[1], t[2], options, {}, whole)};
  });
  const at::Tensor residual = inputs[0].detach().flip(0);
  count_passes(std::string("sum and norm ") + c10::toString(dtype), inputs, [&](const std::vector<at::Tensor>& t) {
    const auto [y, sum] = residual_group_norm_silu({t[0], residual}, t[1], t[2], options, {}, whole);
    return std::vector{y, sum};
  });
}

void count_attention(at::ScalarType dtype) {
  std::vector<at::Tensor> inputs;
  inputs.reserve(3);
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(at::arange(2 * 64 * 32, at::kFloat).add(i).sin().view({2, 64, 32}).to(dtype).requires_grad_());
  }
  count_passes(std::string("attention ") + c10::toString(dtype), inputs, [](const std::vector<at::Tensor>& t) {
    return std::vector{ddpm::nn::cpu::attention(t[0], t[1], t[2], 4)};
  });
}

void count_convolution(at::ScalarType dtype) {
  const int64_t channels = 32;
  const auto leaf = [&](const at::Tensor& t) { return t.to(dtype).requires_grad_(); };
  const at::Tensor x = at::arange(2 * channels * 16 * 16, at::kFloat).sin().view({2, channels, 16, 16});
  const std::vector<at::Tensor> inputs = {leaf(x.contiguous(at::MemoryFormat::ChannelsLast)),
                                          leaf(at::ones({channels, channels, 3, 3})), leaf(at::zeros({channels}))};
  count_passes(std::string("convolution ") + c10::toString(dtype), inputs, [](const std::vector<at::Tensor>& t) {
    return std::vector{ddpm::nn::winograd_convolution(t[0], t[1], t[2])};
  });
}

void count_update() {
  const std::size_t n = 1 << 16;
  std::vector<float> weights(n, 0.5F), gradient(n, 0.1F), first(n), second(n), average(n, 0.5F);
  const ddpm::optim::AdamWStep step{.learning_rate = 1e-3, .applied_step = 3, .gradient_scale = 0.5};
  count("sum of squares", [&] { (void)ddpm::optim::sum_of_squares(gradient); });
  count("AdamW", [&] { ddpm::optim::adamw_update({}, step, weights, gradient, first, second); });
  count("average", [&] { ddpm::optim::ema_update(0.99, average, weights); });
}

void count_data() {
  std::vector<float> noise(3072);
  const ddpm::base::RandomSequence random(1, ddpm::base::Stream::noise, 2, 3);
  count("noise of an image", [&] { random.fill_normal(noise); });
  const ddpm::base::Permutation order(1, ddpm::base::Stream::shuffle, 0, 0, 50'000);
  count("shuffle", [&] {
    for (uint64_t i = 0; i < 256; ++i) (void)order(i);
  });
  const std::vector<std::byte> bytes(1 << 16, std::byte{7});
  count("CRC-32C", [&] { (void)ddpm::base::crc32c(bytes); });
  ddpm::data::prepare::Image image(320, 240, 3);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 31);
  count("resizing", [&] { (void)ddpm::data::prepare::resize(image, 85, 64); });
}

}  // namespace

int main() {
  at::set_num_threads(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    count_norm(dtype);
    count_convolution(dtype);
    count_attention(dtype);
  }
  count_update();
  count_data();
}
