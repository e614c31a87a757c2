#include "parallel/parameter_arena.h"

#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StorageImpl.h>

#include "base/check.h"
#include "base/product.h"
#include "base/round_up.h"
#include "nn/parameter.h"

namespace ddpm::parallel {

Sharding Sharding::make(const layout::Parallelism& parallelism, const layout::Mesh& mesh, int64_t rank,
                        double bucket_mib) {
  return {.zero_stage = parallelism.zero_stage,
          .parts = mesh.degree(layout::Axis::shard),
          .index = mesh.coordinate(rank, layout::Axis::shard),
          .channel_parts = mesh.degree(layout::Axis::tensor),
          .channel_part = mesh.coordinate(rank, layout::Axis::tensor),
          .stages = mesh.degree(layout::Axis::pipeline),
          .stage = mesh.coordinate(rank, layout::Axis::pipeline),
          .stage_units = parallelism.stage_units,
          .segment_elements = layout::bucket_elements(bucket_mib),
          .offload = parallelism.offload,
          .islands = parallelism.sync_every > 0 ? mesh.degree(layout::Axis::island) : 0,
          .island = mesh.coordinate(rank, layout::Axis::island)};
}

ParameterArena::ParameterArena(const std::vector<ArenaParameter>& parameters, at::ScalarType compute_dtype,
                               at::Device device, const Sharding& sharding)
    : sharding_(sharding), mixed_precision_(compute_dtype != at::kFloat) {
  const at::NoGradGuard no_grad;
  place(parameters);
  allocate(compute_dtype, device);
  bind();
}

void ParameterArena::place(const std::vector<ArenaParameter>& parameters) {
  const bool by_unit = sharding_.cuts_weights();
  std::vector<int64_t> unit_elements;
  int64_t begin = 0;
  for (const ArenaParameter& parameter : parameters) {
    if (parameter.role != base::ParameterRole::trained) continue;
    DDPM_CHECK(parameter.value != nullptr, "parameter {} has no tensor to bind", parameter.name);
    DDPM_CHECK(parameter.unit + 1 >= std::ssize(unit_elements), "unit {} after unit {}", parameter.unit,
               unit_elements.size());
    if (parameter.unit >= std::ssize(unit_elements)) {
      unit_elements.resize(static_cast<std::size_t>(parameter.unit) + 1);
      if (by_unit) begin = layout::ShardLayout::by_unit(unit_elements, sharding_.parts).size();
    }
    const int64_t count = base::product_of(parameter.shape);
    entries_.push_back({.name = parameter.name,
                        .shape = parameter.shape,
                        .range = {begin, begin + count},
                        .unit = parameter.unit,
                        .value = parameter.value,
                        .split = parameter.split});
    begin += base::round_up(count, layout::kFlatAlignment);
    unit_elements.back() += base::round_up(count, layout::kFlatAlignment);
  }
  layout_ = by_unit ? layout::ShardLayout::by_unit(unit_elements, sharding_.parts)
                    : layout::ShardLayout::by_size(begin, sharding_.segment_elements, sharding_.parts);
  for (std::size_t segment = 0; segment < layout_.segments().size(); ++segment) {
    const layout::Range part = layout_.part(segment, sharding_.index);
    if (part.empty()) continue;
    if (!pieces_.empty() && pieces_.back().end == part.begin) {
      pieces_.back().end = part.end;
    } else {
      pieces_.push_back(part);
    }
  }
}

void ParameterArena::allocate(at::ScalarType compute_dtype, at::Device device) {
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(device);
  gradient_ = at::zeros({sharding_.cuts_gradients() ? layout_.shard_size() : size()}, floats);
  const bool offloaded = sharding_.offload != Offload::none;  // offload_bytes.h counts what is pinned then
  const bool parameters = sharding_.offload == Offload::parameters;
  DDPM_CHECK(!parameters || sharding_.cuts_weights(), "offloaded parameters in stage {}", sharding_.zero_stage);
  auto weights = floats.dtype(compute_dtype);
  if (parameters) weights = weights.device(at::kCPU).pinned_memory(!device.is_cpu());
  working_ = at::zeros({sharding_.cuts_weights() ? layout_.shard_size() : size()}, weights);
  const bool copy = mixed_precision_ || (offloaded && !parameters);
  master_ = copy ? make_state(/*pinned=*/offloaded && !device.is_cpu()) : working_pieces();
  for (const at::Tensor& piece : master_) piece.zero_();
  gradient_pieces_ = pieces_of(gradient_, !sharding_.cuts_gradients());
  own_gradient_pieces_ = sharding_.channel_part == 0 ? gradient_pieces_ : views_of(gradient_pieces_, /*cut=*/true);
}

void ParameterArena::bind() {
  const auto bind_to = [](const at::Tensor& whole, int64_t begin, const ArenaEntry& entry) {
    const at::Tensor run = whole.narrow(0, entry.range.begin - begin, entry.range.size());
    *entry.value = view(run, entry).detach().set_requires_grad(true);
  };
  auto entry = entries_.begin();
  if (sharding_.cuts_weights()) {
    for (std::size_t unit = 0; unit < layout_.segments().size(); ++unit) {
      const layout::Range segment = layout_.segments()[unit];
      unit_weights_.push_back(at::empty({segment.size()}, gradient_.options().dtype(working_.scalar_type())));
      for (; entry != entries_.end() && std::cmp_equal(entry->unit, unit); ++entry)
        bind_to(unit_weights_.back(), segment.begin, *entry);
      set_unit_present(unit, false);  // before the next one takes memory
    }
  }
  for (; entry != entries_.end(); ++entry) bind_to(working_, 0, *entry);
}

void ParameterArena::set_unit_present(std::size_t unit, bool present) {
  const at::Tensor& weights = unit_weights_[unit];
  c10::StorageImpl& storage = *weights.storage().unsafeGetStorageImpl();
  const std::size_t bytes = present ? weights.numel() * weights.element_size() : 0;
  if (storage.nbytes() == bytes) return;
  storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
  storage.set_nbytes(bytes);
}

void ParameterArena::adopt_unit(std::size_t unit, const at::Tensor& values) {
  c10::StorageImpl& weights = *unit_weights_[unit].storage().unsafeGetStorageImpl();
  c10::StorageImpl& source = *values.storage().unsafeGetStorageImpl();
  const std::size_t bytes = source.nbytes();
  weights.set_data_ptr_noswap(source.set_data_ptr(c10::DataPtr(nullptr, source.device())));
  weights.set_nbytes(bytes);
  source.set_nbytes(0);
}

int64_t ParameterArena::parameter_count() const {
  return std::accumulate(entries_.begin(), entries_.end(), int64_t{0}, [](int64_t sum, const ArenaEntry& entry) {
    return sum + entry.split.times() * entry.range.size();
  });
}

StateBuffer ParameterArena::make_state() const { return make_state(/*pinned=*/false); }

StateBuffer ParameterArena::make_state(bool pinned) const {
  const int64_t kept = std::accumulate(pieces_.begin(), pieces_.end(), int64_t{0},
                                       [](int64_t sum, layout::Range piece) { return sum + piece.size(); });
  const at::Device device = sharding_.offload == Offload::none ? gradient_.device() : at::Device(at::kCPU);
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device).pinned_memory(pinned);
  return pieces_of(at::zeros({kept}, options), false);
}

/// Views of the pieces in a whole flat buffer, or in one that holds nothing but the pieces.
StateBuffer ParameterArena::pieces_of(const at::Tensor& buffer, bool whole) const {
  StateBuffer state;
  int64_t offset = 0;
  for (const layout::Range& piece : pieces_) {
    state.push_back(buffer.narrow(0, whole ? piece.begin : offset, piece.size()));
    offset += piece.size();
  }
  return state;
}

/// Views of what is cut in `state`, a buffer of this arena, or of what is not.
StateBuffer ParameterArena::views_of(const StateBuffer& state, bool cut) const {
  StateBuffer views;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    for (const ArenaEntry& entry : entries_) {
      const layout::Range kept = layout::intersect(pieces_[i], entry.range);
      if (kept.empty() || entry.split.cuts() != cut) continue;
      views.push_back(state[i].narrow(0, kept.begin - pieces_[i].begin, kept.size()));
    }
  }
  return views;
}

StateBuffer ParameterArena::working_pieces() const { return pieces_of(working_, !sharding_.cuts_weights()); }

at::Tensor ParameterArena::gradient_part(std::size_t segment) const {
  const layout::Range part = layout_.part(segment, sharding_.index);
  return gradient_.narrow(0, sharding_.cuts_gradients() ? layout_.shard_offset(segment) : part.begin, part.size());
}

at::Tensor ParameterArena::working_part(std::size_t segment) const {
  const layout::Range part = layout_.part(segment, sharding_.index);
  return working_.narrow(0, sharding_.cuts_weights() ? layout_.shard_offset(segment) : part.begin, part.size());
}

bool ParameterArena::is_kernel(const ArenaEntry& entry) { return nn::is_kernel(entry.shape); }

at::Tensor ParameterArena::flatten(const at::Tensor& tensor) { return nn::stored_run(tensor); }

at::Tensor ParameterArena::view(const at::Tensor& run, const ArenaEntry& entry) {
  return nn::view_of_run(run, entry.shape);
}

void ParameterArena::assign(const StateBuffer& state, const ArenaEntry& entry, const at::Tensor& tensor) const {
  const at::Tensor run = flatten(nn::part_of(tensor, entry.split));
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const layout::Range kept = layout::intersect(pieces_[i], entry.range);
    if (kept.empty()) continue;
    state[i]
        .narrow(0, kept.begin - pieces_[i].begin, kept.size())
        .copy_(run.narrow(0, kept.begin - entry.range.begin, kept.size()));
  }
}

void ParameterArena::refresh_working() {
  const at::NoGradGuard no_grad;
  const StateBuffer parts = working_pieces();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].is_alias_of(master_[i])) parts[i].copy_(master_[i]);
  }
}

}  // namespace ddpm::parallel
