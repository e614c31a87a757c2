// All parameters of a model in flat buffers, in execution order.
//
// master     float32 weights that the optimizer updates
// gradient   float32 sums over the micro-batches (and, after reduction, the ranks) of one optimizer step
// working    weights in the compute dtype: what forward and backward see; without mixed precision, master itself
//
// Every parameter begins on a 64-byte border, so vector code sees the same alignment at any cut. Four-dimensional
// parameters (convolution weights [out, in, kh, kw]) lie channels-last; names and shapes are the model's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layout/range.h"

namespace ddpm::parallel {

/// A parameter as the arena sees it. `value` is bound to a view of the working buffer that requires a gradient.
struct ArenaParameter {
  std::string name;
  std::vector<int64_t> shape;
  at::Tensor* value = nullptr;
};

class ParameterArena {
 public:
  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
    layout::Range range;  ///< elements of each flat buffer, without padding
    at::Tensor* value;
  };

  /// Elements to which every parameter is aligned: 16 floats are 64 bytes.
  static constexpr int64_t kAlignment = 16;

  ParameterArena(const std::vector<ArenaParameter>& parameters, at::ScalarType compute_dtype, at::Device device);

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  /// Elements of each flat buffer, padding included.
  [[nodiscard]] int64_t size() const { return size_; }
  /// Elements of all parameters, padding excluded.
  [[nodiscard]] int64_t parameter_count() const;

  [[nodiscard]] const at::Tensor& master() const { return master_; }
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  [[nodiscard]] const at::Tensor& working() const { return working_; }
  [[nodiscard]] bool mixed_precision() const { return !working_.is_same(master_); }

  /// One more zeroed float32 buffer of the same layout (moments, EMA).
  [[nodiscard]] at::Tensor make_buffer() const;
  /// A view of `entry` in `flat`, in the entry's shape.
  [[nodiscard]] static at::Tensor view(const at::Tensor& flat, const Entry& entry);

  /// Casts the master weights into the working buffer; does nothing when they are one.
  void refresh_working();

 private:
  std::vector<Entry> entries_;
  int64_t size_ = 0;
  at::Tensor master_;
  at::Tensor gradient_;
  at::Tensor working_;
};

}  // namespace ddpm::parallel
