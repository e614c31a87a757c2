// Embeddings of the time step, of the class and of parameters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/config.h"
#include "nn/layers.h"
#include "nn/parameter.h"
#include "nn/unit.h"

namespace ddpm::nn {

/// Vaswani et al. 2017, section 3.5: sin(t w_j) and cos(t w_j) with w_j = 10000^(-j / (width / 2 - freq_shift)), in
/// float32. t [N] -> [N, width]: sines first, cosines first if `flip_sin_to_cos`; an odd width ends with a zero.
at::Tensor sinusoids(const at::Tensor& t, int64_t width, bool flip_sin_to_cos, int64_t freq_shift);

/// The numbers w_j, float32 [width / 2].
at::Tensor sinusoid_frequencies(int64_t width, int64_t freq_shift, const at::TensorOptions& options = at::kFloat);

/// The first features of a time step, before any trained layer but the table of the learned kind.
class TimeProjection {
 public:
  explicit TimeProjection(const UNet2DConfig& c);
  /// t [N] -> [N, width()] in `dtype`. Fourier features (Tancik et al. 2020) are those of log t, so t is positive.
  [[nodiscard]] at::Tensor forward(const at::Tensor& t, at::ScalarType dtype) const;
  [[nodiscard]] graph::Value record(graph::Value t, graph::Graph& g) const;
  [[nodiscard]] int64_t width() const { return width_; }
  void collect(OwnedLayers& out);

 private:
  int64_t width_;
  bool flip_sin_to_cos_;
  int64_t freq_shift_;
  std::optional<Parameter> frequencies_;  // fourier
  std::optional<Embedding> table_;        // learned
};

/// Two linear layers with a SiLU between them.
class TimestepEmbedding {
 public:
  TimestepEmbedding(const std::string& prefix, int64_t in, int64_t out);
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const;
  [[nodiscard]] graph::Value record(graph::Value x, graph::Graph& g) const;
  /// Counts the operations of one image.
  [[nodiscard]] Operations operations() const;
  void collect(OwnedLayers& out);

 private:
  Linear linear_1_;
  Linear linear_2_;
};

/// Time embedding plus class embedding plus embedding of parameters, of width time_embedding_dim.
class ConditionEmbedding {
 public:
  explicit ConditionEmbedding(const UNet2DConfig& c);
  [[nodiscard]] at::Tensor forward(const at::Tensor& timesteps, const Conditions& given, at::ScalarType dtype) const;
  /// The graph's model is given parameters with every image.
  [[nodiscard]] graph::Value record(const graph::UnitValues& state, graph::Graph& g) const;
  /// Counts the operations of one image; looking up a table takes none.
  [[nodiscard]] Operations operations() const;
  void collect(OwnedLayers& out);

 private:
  [[nodiscard]] at::Tensor class_embedding(const at::Tensor& class_labels, at::ScalarType dtype) const;
  [[nodiscard]] at::Tensor parameter_embedding(const Conditions& given, at::ScalarType dtype) const;

  TimeProjection projection_;
  TimestepEmbedding time_;
  std::optional<Embedding> class_table_;
  std::optional<TimestepEmbedding> class_time_;
  std::optional<TimestepEmbedding> parameters_;
};

/// time_embedding_dim, or its default: four times the first block's channels.
int64_t time_embedding_dim(const UNet2DConfig& c);

}  // namespace ddpm::nn
