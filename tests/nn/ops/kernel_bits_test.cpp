// The bits of all kernels, for each instruction set that this processor has: SHA-256 of what they compute from fixed
// inputs, against tests/nn/ops/kernel_bits.txt. One record serves all processors, so equal digests are equal bits on
// x86 and Arm. DDPM_RECORD=FILE writes what is computed now.
#include <array>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/sha256.h"
#include "nn/ops/cpu/kernels.h"
#include "optim/flat_kernels.h"

namespace ddpm::nn::cpu {
namespace {

/// Digests by the names of what was computed.
using Digests = std::map<std::string, std::string>;

std::size_t size(int64_t n) { return static_cast<std::size_t>(n); }
int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

template <typename T>
void note(Digests& digests, const std::string& name, const std::vector<T>& values) {
  base::Sha256 hash;
  hash.update(std::as_bytes(std::span(values)));
  ASSERT_TRUE(digests.emplace(name, hash.hex()).second) << name << " twice";
}

/// Standard normals, others for each number `which`.
std::vector<float> normals(int64_t count, uint64_t which) {
  std::vector<float> values(size(count));
  base::RandomSequence(7, base::Stream::noise, which, 0).fill_normal(values);
  return values;
}

template <typename T>
std::vector<T> images(int64_t count, uint64_t which) {
  std::vector<float> floats = normals(count, which);
  if constexpr (std::is_same_v<T, float>) {
    return floats;
  } else {
    std::vector<T> values;
    values.reserve(floats.size());
    for (const float x : floats) values.push_back({static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16U)});
    return values;
  }
}

template <typename T>
constexpr const char* kTypeName = std::is_same_v<T, float> ? "float32" : "bf16";

struct alignas(64) Line {
  float floats[16];
};

/// Scratch memory that keeps vectors aligned.
class Scratch {
 public:
  explicit Scratch(int64_t floats) : lines_(size((floats + 15) / 16)) {}
  float* data() { return lines_.front().floats; }

 private:
  std::vector<Line> lines_;
};

// --- Group normalisation
// ----------------------------------------------------------------------------------------------

template <typename T>
void norm_bits(const GroupNormKernels<T>& kernel, int64_t channels, Digests& digests) {
  constexpr int64_t kPixels = 75;  // two tiles of 32 pixels, and a part of one
  const int64_t padded = rounded_up(channels, kChannelPadding);
  const auto name = [&](const std::string& what) {
    return fmt::format("norm of {} channels, {}: {}", channels, kTypeName<T>, what);
  };
  const std::vector<T> x = images<T>(kPixels * channels, 1);
  const std::vector<T> dy = images<T>(kPixels * channels, 2);
  std::array<std::vector<float>, 4> arrays;
  for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i] = normals(padded, 3 + i);
  const NormCoefficients u{arrays[0].data(), arrays[1].data(), arrays[2].data(), arrays[3].data()};
  const NormGradientCoefficients k{arrays[0].data(), arrays[1].data(), arrays[2].data(), arrays[3].data()};

  std::vector<T> y(x.size());
  kernel.add(x.data(), dy.data(), kPixels * channels, y.data());
  note(digests, name("sum"), y);
  std::vector<double> sums(size(2 * channels));
  kernel.moments(x.data(), kPixels, channels, arrays[0].data(), sums.data());
  note(digests, name("moments"), sums);
  kernel.moments_in_any_order(x.data(), kPixels, channels, arrays[0].data(), sums.data());
  note(digests, name("moments in any order"), sums);
  sums.resize(size(3 * channels));
  for (const bool silu : {false, true}) {
    const char* const activation = silu ? "with SiLU" : "alone";
    kernel.normalise(x.data(), kPixels, channels, u, silu, y.data());
    note(digests, name(fmt::format("result {}", activation)), y);
    kernel.gradient_sums(x.data(), dy.data(), kPixels, channels, u, silu, y.data(), sums.data());
    note(digests, name(fmt::format("gradient {}", activation)), y);
    note(digests, name(fmt::format("sums of the gradient {}", activation)), sums);
  }
  for (const T* const residual : {static_cast<const T*>(nullptr), dy.data()}) {
    std::vector<T> dx = images<T>(kPixels * channels, 8);
    kernel.input_gradient(x.data(), residual, kPixels, channels, k, dx.data());
    note(digests, name(residual == nullptr ? "gradient of the input" : "gradient of the input and a residual"), dx);
  }
}

// --- Attention
// --------------------------------------------------------------------------------------------------------

/// One of two heads, whose rows lie side by side.
template <typename T>
void attention_bits(const AttentionKernels<T>& kernel, int64_t head_size, Digests& digests) {
  constexpr int64_t kQueries = 77;  // more than two tiles, and no multiple of anything
  constexpr int64_t kKeys = 69;
  const int64_t stride = 2 * head_size;
  const auto name = [&](const char* what) {
    return fmt::format("attention of {} channels, {}: {}", head_size, kTypeName<T>, what);
  };
  const std::vector<T> q = images<T>(kQueries * stride, 11);
  const std::vector<T> k = images<T>(kKeys * stride, 12);
  const std::vector<T> v = images<T>(kKeys * stride, 13);
  const std::vector<T> dy = images<T>(kQueries * stride, 14);
  const AttentionHead<T> head{.q = q.data(),
                              .k = k.data(),
                              .v = v.data(),
                              .queries = kQueries,
                              .keys = kKeys,
                              .size = head_size,
                              .stride = stride};
  std::vector<T> y(q.size());
  std::vector<T> dq(q.size());
  std::vector<T> dk(k.size());
  std::vector<T> dv(k.size());
  std::vector<float> log_sums(size(kQueries));
  Scratch forward(kernel.forward_scratch(head));
  kernel.forward(head, y.data(), log_sums.data(), forward.data());
  Scratch backward(kernel.backward_scratch(head));
  kernel.backward(head, y.data(), log_sums.data(), dy.data(), dq.data(), dk.data(), dv.data(), backward.data());
  note(digests, name("result"), y);
  note(digests, name("log-sums"), log_sums);
  note(digests, name("gradient of q"), dq);
  note(digests, name("gradient of k"), dk);
  note(digests, name("gradient of v"), dv);
}

// --- Winograd's convolution
// -------------------------------------------------------------------------------------------

constexpr int64_t kImages = 2;
constexpr int64_t kIn = 32;
constexpr int64_t kOut = 48;  // one vector and a half of AVX-512's results

int64_t tiles_of(const WinogradShape& s) { return kImages * ((s.height + 3) / 4) * ((s.width + 3) / 4); }

/// Weights at the points, as WinogradKernels::run() wants them. Turned, they go from kOut channels to kIn.
std::vector<float> weights_at_points(const WinogradWeightKernels& kernel, const std::vector<float>& weight,
                                     bool turned) {
  const int64_t out = turned ? kIn : kOut;
  const int64_t in = turned ? kOut : kIn;
  const int64_t stride = winograd_stride(in * kernel.width);
  std::vector<float> points(size(rounded_up(out, kernel.width) / kernel.width * kWinogradPoints * stride));
  for (int64_t first = 0; first < out; first += kernel.width) {
    float* const part = points.data() + first / kernel.width * kWinogradPoints * stride;
    const int64_t outputs = std::min(kernel.width, out - first);
    for (int64_t c = 0; c < in; c += turned ? 1 : kWinogradTogether) {
      if (turned) {
        kernel.turned_to_points(weight.data() + c * kWinogradTaps * kIn + first, kIn, outputs, stride,
                                part + c * kernel.width);
      } else {
        kernel.to_points(weight.data() + first * kWinogradTaps * kIn + c, kIn, outputs, stride,
                         part + c * kernel.width);
      }
    }
  }
  return points;
}

template <typename T>
std::vector<T> convolution(const WinogradKernels<T>& kernel, const WinogradShape& shape, const std::vector<T>& x,
                           const std::vector<float>& weights) {
  const std::vector<float> bias = normals(shape.out, 23);
  std::vector<T> y(size(kImages * shape.height * shape.width * shape.out));
  Scratch scratch(kernel.scratch(shape));
  kernel.run(shape, x.data(), weights.data(), bias.data(), shape.out, 0, tiles_of(shape), y.data(), scratch.data());
  return y;
}

template <typename T>
std::vector<float> weight_gradient(const WinogradKernels<T>& kernel, const WinogradWeightKernels& of_weights,
                                   const WinogradShape& shape, const std::vector<T>& x, const std::vector<T>& dy) {
  const int64_t tiles = tiles_of(shape);
  const int64_t width = of_weights.width;
  const int64_t wide = rounded_up(kOut, width);
  const WinogradOrder image{.width = kWinogradChannels,
                            .point = winograd_stride(tiles * kIn),
                            .chunk = tiles * kWinogradChannels,
                            .tile = kWinogradChannels};
  const WinogradOrder gradient{
      .width = width, .point = winograd_stride(tiles * wide), .chunk = tiles * width, .tile = width};
  std::vector<float> image_points(size(kWinogradPoints * image.point));
  std::vector<float> gradient_points(size(kWinogradPoints * gradient.point));
  kernel.image_points(shape, x.data(), 0, tiles, image, image_points.data());
  kernel.gradient_points(shape, dy.data(), kOut, 0, tiles, gradient, gradient_points.data());
  const int64_t stride = winograd_stride(kIn * wide);
  std::vector<float> sums(size(kWinogradPoints * stride));
  for (int64_t p = 0; p < kWinogradPoints; ++p) {
    for (int64_t part = 0; part < wide / width; ++part) {
      of_weights.add_products(image_points.data() + p * image.point, image.chunk, kIn,
                              gradient_points.data() + p * gradient.point + part * gradient.chunk, tiles, wide,
                              sums.data() + p * stride + part * width);
    }
  }
  std::vector<float> result(size(kOut * kWinogradTaps * kIn));
  for (int64_t c = 0; c < kIn; c += kWinogradTogether) {
    of_weights.gradient(sums.data() + c * wide, wide, stride, kIn, kOut, result.data() + c);
  }
  return result;
}

template <typename T>
void convolution_bits(const WinogradKernels<T>& kernel, const WinogradWeightKernels& of_weights, Digests& digests) {
  const WinogradShape shape{.height = 10, .width = 7, .in = kIn, .out = kOut, .repeated = false};
  const WinogradShape back{.height = 10, .width = 7, .in = kOut, .out = kIn, .repeated = false};
  const WinogradShape repeated{.height = 20, .width = 14, .in = kIn, .out = kOut, .repeated = true};
  const auto name = [](const char* what) { return fmt::format("convolution, {}: {}", kTypeName<T>, what); };
  const std::vector<T> x = images<T>(kImages * shape.height * shape.width * kIn, 21);
  const std::vector<T> dy = images<T>(kImages * shape.height * shape.width * kOut, 22);
  const std::vector<float> weight = normals(kOut * kWinogradTaps * kIn, 24);
  const std::vector<float> points = weights_at_points(of_weights, weight, /*turned=*/false);
  note(digests, name("result"), convolution(kernel, shape, x, points));
  note(digests, name("result of repeated pixels"), convolution(kernel, repeated, x, points));
  note(digests, name("gradient of x"),
       convolution(kernel, back, dy, weights_at_points(of_weights, weight, /*turned=*/true)));
  note(digests, name("gradient of the weight"), weight_gradient(kernel, of_weights, shape, x, dy));
}

// --- All together
// -----------------------------------------------------------------------------------------------------

template <typename T>
void bits_of_type(const GroupNormKernels<T>& norm, const AttentionKernels<T>& attention,
                  const WinogradKernels<T>& convolution, const WinogradWeightKernels& weights, Digests& digests) {
  for (const int64_t channels : {3, 40, 64}) norm_bits(norm, channels, digests);
  for (const int64_t head_size : {8, 12, 64}) attention_bits(attention, head_size, digests);
  convolution_bits(convolution, weights, digests);
}

Digests bits_of(const Kernels& k) {
  Digests digests;
  bits_of_type(k.group_norm_float, k.attention_float, k.winograd_float, k.winograd_weights, digests);
  bits_of_type(k.group_norm_bfloat16, k.attention_bfloat16, k.winograd_bfloat16, k.winograd_weights, digests);
  return digests;
}

/// What chooses its instructions by itself.
Digests bits_of_the_rest() {
  constexpr int64_t kCount = 4099;
  Digests digests;
  std::vector<float> values = normals(kCount, 31);
  note(digests, "normal numbers", values);
  std::vector<float> uniform(values.size());
  base::RandomSequence(7, base::Stream::noise, 32, 0).fill_uniform(uniform, -1.0F, 3.0F);
  note(digests, "uniform numbers", uniform);
  base::RandomSequence(7, base::Stream::noise, 35, 0).fill_uniform(uniform, 0.0F, 3.0F);
  note(digests, "CRC-32C", std::vector{base::crc32c(std::as_bytes(std::span(values)))});
  note(digests, "sum of squares", std::vector{optim::squares_kernel(values.size(), values.data())});
  const optim::AdamWScalars scalars{.gradient_scale = 0.75F,
                                    .keep = 0.9999F,
                                    .one_minus_beta1 = 0.05F,
                                    .beta2 = 0.999F,
                                    .one_minus_beta2 = 0.001F,
                                    .step_size = 0.003F,
                                    .root_correction = 0.07F,
                                    .eps = 1e-8F};
  std::vector<float> first = normals(kCount, 33);
  optim::adamw_kernel(scalars, values.size(), values.data(), normals(kCount, 34).data(), first.data(), uniform.data());
  note(digests, "AdamW: weights", values);
  note(digests, "AdamW: first moments", first);
  note(digests, "AdamW: second moments", uniform);
  optim::ema_kernel(0.01F, values.size(), first.data(), values.data());
  note(digests, "average of weights", first);
  return digests;
}

Digests recorded() {
  std::ifstream file(std::string(DDPM_TEST_DATA) + "/ops/kernel_bits.txt");
  Digests digests;
  std::string digest;
  std::string name;
  while (file >> digest && std::getline(file >> std::ws, name)) digests[name] = digest;
  return digests;
}

void expect_recorded(const Digests& seen) {
  const Digests wanted = recorded();
  for (const auto& [name, digest] : seen) {
    const auto at = wanted.find(name);
    EXPECT_EQ(digest, at == wanted.end() ? "not recorded" : at->second) << name;
  }
}

struct InstructionSet {
  const char* name;
  const Kernels& kernels;
  bool supported;
};

std::vector<InstructionSet> instruction_sets() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return {{"baseline", kBaselineFusedKernels, true}, {"AVX2", kAvx2Kernels, avx2}, {"AVX-512", kAvx512Kernels, avx512}};
#elif defined(__aarch64__)
  return {{"NEON", kNeonKernels, true}};
#else
  return {};
#endif
}

TEST(KernelBits, AreThoseRecordedWithEveryInstructionSet) {
  for (const InstructionSet& set : instruction_sets()) {
    if (!set.supported) continue;
    SCOPED_TRACE(set.name);
    const Digests digests = bits_of(set.kernels);
    fmt::print("{}: {} digests\n", set.name, digests.size());
    expect_recorded(digests);
  }
}

TEST(KernelBits, OfOptimizerAndRandomNumbersAreThoseRecorded) { expect_recorded(bits_of_the_rest()); }

TEST(KernelBits, AreRecordedForNothingElse) {
  const std::vector<InstructionSet> sets = instruction_sets();
  if (sets.empty()) return;
  Digests all = bits_of(sets.front().kernels);
  all.merge(bits_of_the_rest());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (const char* const path = std::getenv("DDPM_RECORD")) {
    std::ofstream file(path);
    for (const auto& [name, digest] : all) file << digest << "  " << name << '\n';
  }
  for (const auto& [name, digest] : recorded()) EXPECT_TRUE(all.contains(name)) << name;
}

}  // namespace
}  // namespace ddpm::nn::cpu
