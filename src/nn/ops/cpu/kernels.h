// The inner loops of the CPU's operations: plain pointers, one thread, no LibTorch. Compiled for several instruction
// sets and chosen at run time. Internal to nn/ops/cpu.
#pragma once

#include <cstdint>

namespace ddpm::nn::cpu {

/// The upper half of a float's bits.
struct BFloat16 {
  uint16_t bits;
};

/// Group normalisation over `pixels` pixels of one image, channels last: rows of `channels` values. What is per channel
/// comes in arrays of `channels` floats that can be read up to the next multiple of kChannelPadding.
constexpr int64_t kChannelPadding = 16;

/// u = x̂ · weight + bias with x̂ = (x - centre) · rstd, per channel.
struct NormCoefficients {
  const float* centre;
  const float* rstd;
  const float* weight;
  const float* bias;
};

/// dx = du · of_gradient + (x - centre) · of_x + constant, per channel.
struct NormGradientCoefficients {
  const float* centre;
  const float* of_gradient;
  const float* of_x;
  const float* constant;
};

template <typename T>
struct GroupNormKernels {
  /// sum = a + b, rounded to T
  void (*add)(const T* a, const T* b, int64_t values, T* sum);
  /// sums[0][c] = Σ (x - origin[c]), sums[1][c] = Σ (x - origin[c])², rows of `channels`.
  void (*moments)(const T* x, int64_t pixels, int64_t channels, const float* origin, double* sums);
  /// The sums of `moments` in float64 throughout, at twice the time. Another order of pixels changes these sums by
  /// float64's rounding alone, so that what follows from them has the same float32 value, unless it lies that near to
  /// where float32 rounds the other way: one of some 10^7.
  void (*moments_in_any_order)(const T* x, int64_t pixels, int64_t channels, const float* origin, double* sums);
  /// y = u, or u · sigmoid(u) with `silu`
  void (*normalise)(const T* x, int64_t pixels, int64_t channels, NormCoefficients u, bool silu, T* y);
  /// du, and sums[0][c] = Σ du, sums[1][c] = Σ du · x̂, sums[2][c] = Σ x̂ with du not rounded to T.
  void (*gradient_sums)(const T* x, const T* dy, int64_t pixels, int64_t channels, NormCoefficients u, bool silu, T* du,
                        double* sums);
  /// `dx` holds du before. `residual_gradient`, if not null, is added.
  void (*input_gradient)(const T* x, const T* residual_gradient, int64_t pixels, int64_t channels,
                         NormGradientCoefficients k, T* dx);
};

/// One head of one image. Rows lie `stride` apart, their `size` values side by side; size is a multiple of
/// kHeadMultiple.
template <typename T>
struct AttentionHead {
  const T* q;
  const T* k;
  const T* v;
  int64_t queries;
  int64_t keys;
  int64_t size;
  int64_t stride;
};
constexpr int64_t kHeadMultiple = 4;

template <typename T>
struct AttentionKernels {
  /// y = softmax(q kᵀ / √size) v; log_sums[i] = log2 Σ_j exp(q_i · k_j / √size).
  void (*forward)(const AttentionHead<T>& head, T* y, float* log_sums, float* scratch);
  /// Computes the gradients from y, log_sums and dy.
  void (*backward)(const AttentionHead<T>& head, const T* y, const float* log_sums, const T* dy, T* dq, T* dk, T* dv,
                   float* scratch);
  /// Floats of scratch memory.
  int64_t (*forward_scratch)(const AttentionHead<T>& head);
  int64_t (*backward_scratch)(const AttentionHead<T>& head);
};

/// The forward pass for what is drawn, by products of tiles of bfloat16. Scores and sums are float32, in an order of
/// their own, and probabilities, between 0 and 1, are rounded to bfloat16 before they are multiplied with the values.
/// Subnormal numbers count as zero, and products of q and k beyond float32's range give NaN.
struct TileAttention {
  /// y = softmax(q kᵀ / √size) v
  void (*forward)(const AttentionHead<BFloat16>& head, BFloat16* y, float* scratch);
  /// Floats of scratch memory.
  int64_t (*scratch)(const AttentionHead<BFloat16>& head);
};

/// Which pixels a convolution of 3 x 3 taps computes: all, every second one along each axis, or those of the image with
/// each pixel twice along each axis.
enum class Window : uint8_t { same, halved, doubled };

/// Convolution by products of tiles of bfloat16, of images that end in zeros. `height` and `width` are those of the
/// result, or half of them with Window::doubled. `in` and `out` are multiples of kTileChannels.
struct TileConvolutionShape {
  int64_t height;
  int64_t width;
  int64_t in;
  int64_t out;
  Window window;
  int64_t before;  ///< rows and columns of zeros above and left: 1, or 0 with Window::halved
};
constexpr int64_t kTileChannels = 32;

/// Some of a convolution's rows, and of its outputs in multiples of kTileChannels.
struct TileConvolutionPart {
  int64_t first_row;
  int64_t rows;
  int64_t first_output;
  int64_t outputs;
};

/// For what is drawn. Sums are float32, over taps, then channels; subnormal numbers count as zero. Weights are
/// [phases, out / 32, taps, in / 32, 2, 16, 16, 2]: 32 outputs as two halves, whose pairs of channels lie together.
/// With Window::doubled, phase 2 a + b computes the pixels of rows 2 i + a and columns 2 j + b from 2 x 2 taps.
struct TileConvolution {
  /// Computes a part of the result y of the image x.
  void (*run)(const TileConvolutionShape& shape, const TileConvolutionPart& part, const BFloat16* x,
              const BFloat16* weights, const float* bias, BFloat16* y, float* scratch);
  /// The rows of a part, which stay in the second-level cache.
  int64_t (*rows)(const TileConvolutionShape& shape);
  /// Floats of scratch memory, for that many rows.
  int64_t (*scratch)(const TileConvolutionShape& shape, int64_t rows);
};

/// Convolution by Winograd's filtering (nn/ops/winograd.h). The result has images of height x width x out; x those of
/// height x width x in, or half as high and wide with `repeated`. `in` and `out` are multiples of kWinogradChannels.
struct WinogradShape {
  int64_t height;
  int64_t width;
  int64_t in;
  int64_t out;
  bool repeated;
};
constexpr int64_t kWinogradPoints = 36;
constexpr double kWinogradUnit = 0.75;  ///< u of the points 0, ±u, ±2u and ∞ of an axis
constexpr int64_t kWinogradChannels = 16;
constexpr int64_t kWinogradTaps = 9;
constexpr int64_t kWinogradTogether = 8;  ///< channels and outputs whose kernels are transformed together

/// What belongs to the points lies that many floats apart, for `floats` of each: no power of two, which would put all
/// points into the same few lines of a cache.
constexpr int64_t winograd_stride(int64_t floats) { return floats + 16; }

/// Value c of tile t at point p is at p * point + c / width * chunk + t * tile + c % width.
struct WinogradOrder {
  int64_t width;
  int64_t point;
  int64_t chunk;
  int64_t tile;
};

template <typename T>
struct WinogradKernels {
  /// Computes tiles `first` to `last` - 1 of all images, in `outputs` channels from that of y on. weights
  /// [⌈outputs / width⌉, points, in, width] with points winograd_stride(in * width) apart; bias [outputs].
  void (*run)(const WinogradShape& shape, const T* x, const float* weights, const float* bias, int64_t outputs,
              int64_t first, int64_t last, T* y, float* scratch);
  /// Floats of scratch memory.
  int64_t (*scratch)(const WinogradShape& shape);
  /// For the weight's gradient: tiles of x, and of `outputs` channels of the result's gradient, at the points.
  void (*image_points)(const WinogradShape& shape, const T* x, int64_t first, int64_t count, const WinogradOrder& order,
                       float* points);
  void (*gradient_points)(const WinogradShape& shape, const T* dy, int64_t outputs, int64_t first, int64_t count,
                          const WinogradOrder& order, float* points);
};

/// Weights, and their gradients, are in channels-last order: that of output o, tap t and channel c is at (o * 9 + t) *
/// channels + c. Numbers of outputs are multiples of 8. Points are `stride` apart.
struct WinogradWeightKernels {
  int64_t width;  ///< outputs that lie together; 0: there are no kernels
  /// points [36][8][width]: of eight channels and `outputs` <= width, zeros from there on.
  void (*to_points)(const float* weight, int64_t channels, int64_t outputs, int64_t stride, float* points);
  /// points [36][width]: of turned kernels, from one output to `outputs` channels.
  void (*turned_to_points)(const float* weight, int64_t channels, int64_t outputs, int64_t stride, float* points);
  /// The transpose of to_points(), for all outputs: those of a channel begin `next` numbers behind those of the one
  /// before.
  void (*gradient)(const float* points, int64_t next, int64_t stride, int64_t channels, int64_t outputs,
                   float* gradient);
  /// sums[c][o] += Σ_t image[t][c] · gradient[t][o] at one point, for all channels c of x and `width` outputs o. Chunks
  /// of image, [count, kWinogradChannels] each, are `chunk` apart, rows of sums `stride`.
  void (*add_products)(const float* image, int64_t chunk, int64_t channels, const float* gradient, int64_t count,
                       int64_t stride, float* sums);
};

struct Kernels {
  GroupNormKernels<float> group_norm_float;
  GroupNormKernels<BFloat16> group_norm_bfloat16;
  AttentionKernels<float> attention_float;
  AttentionKernels<BFloat16> attention_bfloat16;
  WinogradKernels<float> winograd_float;
  WinogradKernels<BFloat16> winograd_bfloat16;
  WinogradWeightKernels winograd_weights;
};

/// Returns the kernels for this processor, or for a lesser one that ATEN_CPU_CAPABILITY names: the choice is ATen's.
const Kernels& kernels();

/// Whether this processor multiplies whole tiles of bfloat16 (AMX): LibTorch's matrix products and convolutions in
/// bfloat16 are then some ten times as fast as in float32. False where ATEN_CPU_CAPABILITY names a lesser processor, or
/// the kernel of the system does not lend tiles.
bool multiplies_bfloat16_tiles();

struct TileKernels {
  TileAttention attention;
  TileConvolution convolution;
};

/// Null where multiplies_bfloat16_tiles() is false, or the processor lacks instructions that go with tiles (a virtual
/// machine may hide some).
const TileKernels* tile_kernels();

// All have the same bits, but for kBaselineKernels, which round products before they add them.
#if defined(__aarch64__)
extern const Kernels kNeonKernels;
#else
extern const Kernels kBaselineKernels;
#endif
#if defined(__x86_64__)
extern const Kernels kBaselineFusedKernels;  ///< for run.reproducible, since they are slow
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

// These have other bits.
extern const TileAttention kTileAttention;
extern const TileConvolution kTileConvolution;
#endif

}  // namespace ddpm::nn::cpu
