// All trained parameters of a model in flat buffers, in execution order, and the share of them that this rank keeps.
//
// A flat buffer has one place for every parameter, on a 64-byte border, so that vector code sees the same alignment at
// any cut. Four-dimensional parameters (convolution weights [out, in, kh, kw]) lie channels-last; names and shapes are
// the model's. layout::ShardLayout cuts it into segments and parts. By ZeRO stage (Rajbhandari et al. 2020), a rank has
//
//   working    weights in the compute dtype, which forward and backward see    0-2: all      3: gathered unit by unit
//   gradient   float32 sums over micro-batches and ranks                       0, 1: all     2, 3: its parts
//   master     float32 weights that the optimizer updates                      0: all        1-3: its parts
//   moments and averages (make_state)                                          0: all        1-3: its parts
//
// Without mixed precision, master weights are the rank's parts of the working weights, not a copy. With an offload
// (parallel/offload.h), master weights, moments and averages are in host memory, apart from working weights on a
// device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/parameter_role.h"
#include "base/split.h"
#include "layout/mesh.h"
#include "layout/parallelism.h"
#include "layout/shard_layout.h"
#include "parallel/config.h"

namespace ddpm::parallel {

/// A parameter of the model as the arena sees it. `value` is bound to a view of the working weights that requires a
/// gradient; a parameter that is not trained is not in the arena.
struct ArenaParameter {
  std::string name;
  std::vector<int64_t> shape;  ///< shape of what this rank holds
  at::Tensor* value = nullptr;
  int unit = 0;  ///< the model's unit that uses it; not decreasing among those that are trained
  base::ParameterRole role = base::ParameterRole::trained;
  base::Split split = {};  ///< the part that `shape` is of the whole tensor
};

/// Which share of the state a rank keeps, and where.
struct Sharding {
  int64_t zero_stage = 0;
  int64_t parts = 1;                    ///< ranks that share one copy; 1 in stage 0
  int64_t index = 0;                    ///< number of this rank among those that share a copy
  int64_t channel_parts = 1;            ///< ranks that each hold a part of the blocks' channels (parallel.tensor_size)
  int64_t channel_part = 0;             ///< number of the part that this rank holds
  int64_t stages = 1;                   ///< ranks that each hold some of the units (parallel.pipeline_size)
  int64_t stage = 0;                    ///< number of the stage that this rank holds
  std::vector<int64_t> stage_units{};   ///< units of each stage, where they were set (parallel.stage_units)
  int64_t segment_elements = 25 << 18;  ///< elements of a segment in stages 0 to 2; units are the segments in stage 3
  Offload offload = Offload::none;      ///< parameters: in stage 3
  int64_t islands = 0;                  ///< copies of the state that are updated on their own; 0: none
  int64_t island = 0;                   ///< number of the island that this rank belongs to

  /// Whether a rank has its parts alone of the gradient, and of the working weights.
  [[nodiscard]] bool cuts_gradients() const { return zero_stage >= 2; }
  [[nodiscard]] bool cuts_weights() const { return zero_stage >= 3; }

  /// What `rank` of `mesh` keeps, with segments of about `bucket_mib` MiB (parallel.bucket_mib).
  static Sharding make(const layout::Parallelism& parallelism, const layout::Mesh& mesh, int64_t rank,
                       double bucket_mib);
};

/// One float32 tensor per piece that this rank keeps (ParameterArena::pieces).
using StateBuffer = std::vector<at::Tensor>;

struct ArenaEntry {
  std::string name;
  std::vector<int64_t> shape;
  layout::Range range;  ///< elements of the flat buffer, without padding
  int unit = 0;
  at::Tensor* value = nullptr;
  base::Split split = {};
};

class ParameterArena {
 public:
  ParameterArena(const std::vector<ArenaParameter>& parameters, at::ScalarType compute_dtype, at::Device device,
                 const Sharding& sharding = {});

  [[nodiscard]] const std::vector<ArenaEntry>& entries() const { return entries_; }
  [[nodiscard]] const Sharding& sharding() const { return sharding_; }
  [[nodiscard]] const layout::ShardLayout& layout() const { return layout_; }
  /// Elements of a whole flat buffer, padding included.
  [[nodiscard]] int64_t size() const { return layout_.size(); }
  /// Elements of all parameters, padding excluded, and of those that are cut what other ranks hold included.
  [[nodiscard]] int64_t parameter_count() const;

  /// The ranges of the flat buffer that this rank's optimizer updates, ascending: its part of each segment, neighbours
  /// joined. All of the buffer in stage 0.
  [[nodiscard]] const std::vector<layout::Range>& pieces() const { return pieces_; }
  [[nodiscard]] const StateBuffer& master() const { return master_; }
  /// What the reducer leaves for the optimizer.
  [[nodiscard]] const StateBuffer& gradient_pieces() const { return gradient_pieces_; }
  /// What of it no rank before this one has among those that hold other channels of the same blocks: of parameters that
  /// are not cut nothing, but for the first of them.
  [[nodiscard]] const StateBuffer& own_gradient_pieces() const { return own_gradient_pieces_; }
  /// Views of what is not cut by channels in `state`, a buffer of this arena.
  [[nodiscard]] StateBuffer uncut_pieces_of(const StateBuffer& state) const { return views_of(state, /*cut=*/false); }
  /// This rank's parts of the working weights.
  [[nodiscard]] StateBuffer working_pieces() const;
  /// One more zeroed float32 buffer over the pieces (moments, averages).
  [[nodiscard]] StateBuffer make_state() const;

  /// Stages 0 and 1: the whole gradient. Stages 2 and 3: this rank's parts, one after the other.
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  /// This rank's part of a segment in the gradient buffer: where a reduce-scatter leaves it.
  [[nodiscard]] at::Tensor gradient_part(std::size_t segment) const;

  /// Weights of the compute dtype: whole; in stage 3 this rank's parts.
  [[nodiscard]] const at::Tensor& working() const { return working_; }
  /// Stage 3: this rank's parts of the weights in the compute dtype, and the unit's whole weights.
  [[nodiscard]] at::Tensor working_part(std::size_t segment) const;
  [[nodiscard]] const at::Tensor& unit_weights(std::size_t unit) const { return unit_weights_[unit]; }
  /// Stage 3: gives a unit's whole weights fresh memory, which holds anything, or takes it away. All views follow, and
  /// no version counter moves. At first there is none: a rank never holds the whole model, not even while it starts.
  void set_unit_present(std::size_t unit, bool present);
  /// Makes the memory of `values`, of unit_weights()'s size and type, that of the unit's weights. `values` loses it.
  void adopt_unit(std::size_t unit, const at::Tensor& values);
  [[nodiscard]] bool mixed_precision() const { return mixed_precision_; }

  /// Whether the entry is a convolution's weight, whose second axis lies last in the buffer.
  [[nodiscard]] static bool is_kernel(const ArenaEntry& entry);
  /// A weight as the one-dimensional run of values that a flat buffer holds (nn::stored_run).
  [[nodiscard]] static at::Tensor flatten(const at::Tensor& tensor);
  /// Returns a view of such a run of values in the entry's shape.
  [[nodiscard]] static at::Tensor view(const at::Tensor& run, const ArenaEntry& entry);
  /// Copies what this rank keeps of `entry` from `tensor`, the whole one, in any dtype and any order in memory.
  void assign(const StateBuffer& state, const ArenaEntry& entry, const at::Tensor& tensor) const;

  /// Casts the master weights into this rank's parts of the working weights; nothing to do when they are one.
  void refresh_working();

 private:
  void place(const std::vector<ArenaParameter>& parameters);
  void allocate(at::ScalarType compute_dtype, at::Device device);
  void bind();
  [[nodiscard]] StateBuffer make_state(bool pinned) const;
  [[nodiscard]] StateBuffer pieces_of(const at::Tensor& buffer, bool whole) const;
  [[nodiscard]] StateBuffer views_of(const StateBuffer& state, bool cut) const;

  Sharding sharding_;
  std::vector<ArenaEntry> entries_;
  layout::ShardLayout layout_;
  std::vector<layout::Range> pieces_;
  bool mixed_precision_ = false;
  at::Tensor working_;
  std::vector<at::Tensor> unit_weights_;  // stage 3
  at::Tensor gradient_;
  StateBuffer master_;
  StateBuffer gradient_pieces_;
  StateBuffer own_gradient_pieces_;
};

}  // namespace ddpm::parallel
