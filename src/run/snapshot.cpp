#include "run/snapshot.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "base/error.h"
#include "checkpoint/slice_reader.h"
#include "device/copy_stream.h"
#include "device/scalar_type.h"
#include "run/snapshot_blocks.h"

namespace ddpm::run {
namespace {

constexpr const char* kFirstMoment = "exp_avg/";
constexpr const char* kSecondMoment = "exp_avg_sq/";
constexpr const char* kAnchor = "anchor/";

/// The type in which a checkpoint holds values of `type` without loss.
base::DType stored_dtype(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return base::DType::f64;
    case at::kHalf:
      return base::DType::f16;
    case at::kBFloat16:
      return base::DType::bf16;
    case at::kLong:
      return base::DType::i64;
    case at::kInt:
    case at::kShort:
    case at::kChar:
      return base::DType::i32;
    case at::kByte:
    case at::kBool:
      return base::DType::u8;
    default:
      return base::DType::f32;
  }
}

bool is_on_device(const StateView& view) { return !view.values.is_cpu() && !view.values.is_meta(); }

/// Host memory for the values of slices, as a checkpoint holds them; pinned where these are on a device.
std::vector<at::Tensor> host_memory(const std::vector<StateView>& views) {
  std::vector<int64_t> pinned;
  pinned.reserve(views.size());
  for (const StateView& view : views) {
    const auto size = static_cast<int64_t>(c10::elementSize(device::scalar_type(view.slice.dtype)));
    pinned.push_back(is_on_device(view) ? view.values.numel() * size : 0);
  }
  const SnapshotBlocks layout(pinned);
  std::vector<at::Tensor> blocks;
  blocks.reserve(layout.sizes().size());
  for (const int64_t bytes : layout.sizes()) {
    blocks.push_back(at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(bytes > 0)));
  }
  std::vector<at::Tensor> values;
  values.reserve(views.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const at::ScalarType dtype = device::scalar_type(views[i].slice.dtype);
    if (!is_on_device(views[i])) {
      values.push_back(at::empty(views[i].values.sizes(), at::TensorOptions(dtype)));
      continue;
    }
    const auto [block, offset] = layout.places()[i];
    values.push_back(blocks[block].narrow(0, offset, pinned[i]).view(dtype).view(views[i].values.sizes()));
  }
  return values;
}

StateView whole_view(const std::string& name, const at::Tensor& values) {
  return {checkpoint::whole_slice(name, base::DType::f32, values.sizes().vec()), values};
}

std::vector<StateView> fixed_views(const engine::TrainingState& model, const Replica& replica) {
  std::vector<StateView> views;
  for (const engine::FixedTensor& tensor : model.fixed) {
    if (tensor.role == base::ParameterRole::pretrained || !(tensor.split.cuts() || replica.has_shared)) continue;
    views.push_back({part_slice(kWeightsPrefix + tensor.name, stored_dtype(tensor.value.scalar_type()),
                                tensor.value.sizes().vec(), tensor.split),
                     tensor.value,
                     /*fixed=*/true});
  }
  return views;
}

/// The tensors of an island are named as those of a training without islands, or beside them.
std::string prefix_of(int64_t island) { return island == 0 ? "" : fmt::format("island.{}/", island); }

using KindsOfViews = std::vector<std::vector<StateView>>;

/// What each island has of its own, by kind, so that loading needs no second copy of everything at once.
void add_own(const engine::TrainingState& model, const std::string& prefix, const Replica& replica,
             KindsOfViews& kinds) {
  kinds.push_back(state_views(model.arena, model.arena.master(), prefix + kWeightsPrefix, replica));
  kinds.push_back(state_views(model.arena, model.exp_avg, prefix + kFirstMoment, replica));
  kinds.push_back(state_views(model.arena, model.exp_avg_sq, prefix + kSecondMoment, replica));
}

/// What all islands hold alike.
void add_common(const engine::TrainingState& model, const Replica& replica, KindsOfViews& kinds) {
  if (replica.has_fixed) kinds.push_back(fixed_views(model, replica));
  for (std::size_t i = 0; i < model.ema.size(); ++i) {
    kinds.push_back(state_views(model.arena, model.ema[i], average_prefix(i), replica));
  }
}

void add_outer(const engine::OuterState& outer, const parallel::ParameterArena& arena, const Replica& replica,
               KindsOfViews& kinds) {
  kinds.push_back(state_views(arena, outer.anchor, kAnchor, replica));
  kinds.push_back(state_views(arena, outer.momentum, "outer_momentum/", replica));
}

/// What this rank saves.
KindsOfViews saved_views(const engine::TrainingState& model, const Replica& replica) {
  const int64_t island = model.arena.sharding().island;
  KindsOfViews kinds;
  add_own(model, prefix_of(island), replica, kinds);
  if (island > 0) return kinds;
  add_common(model, replica, kinds);
  if (model.outer) add_outer(*model.outer, model.arena, replica, kinds);
  return kinds;
}

/// Whether it has moments and averages.
bool is_trained(const ModelTensor& tensor) { return tensor.role == base::ParameterRole::trained; }
bool is_pretrained(const ModelTensor& tensor) { return tensor.role == base::ParameterRole::pretrained; }

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

engine::Progress progress_of(const checkpoint::Manifest& manifest, const base::Path& path) {
  return engine::read_progress(manifest.state, manifest.step, state_origin(path));
}

/// Elements of a model by what is written of them.
struct ElementCounts {
  int64_t trained = 0;
  int64_t fixed = 0;
  int64_t pretrained = 0;  ///< in finished models alone

  void add(base::ParameterRole role, int64_t elements) {
    (role == base::ParameterRole::trained      ? trained
     : role == base::ParameterRole::pretrained ? pretrained
                                               : fixed) += elements;
  }
  [[nodiscard]] int64_t bytes(std::size_t averages, int64_t models, int64_t islands) const {
    const int64_t own = 3 * std::max<int64_t>(1, islands) + (islands > 0 ? 2 : 0);  // weights, two moments; outer state
    const auto copies = own + static_cast<int64_t>(averages);
    const int64_t exported = pretrained > 0 ? trained + models * pretrained : models * trained;
    return (copies * trained + (1 + models) * fixed + exported) * static_cast<int64_t>(sizeof(float));
  }
};

/// Reads into memory of any axis order, by way of contiguous host copies. They are not pinned: LibTorch would keep that
/// memory, which is several times what a snapshot takes where many ranks save together.
void load_views(const std::vector<StateView>& views, checkpoint::CheckpointStore& store,
                const checkpoint::Checkpoint& checkpoint) {
  std::vector<at::Tensor> staging;
  std::vector<checkpoint::WantedSlice> wanted;
  staging.reserve(views.size());
  wanted.reserve(views.size());
  for (const StateView& view : views) {
    staging.push_back(at::empty(view.values.sizes(), at::TensorOptions(device::scalar_type(view.slice.dtype))));
    wanted.emplace_back(view.slice, bytes_of(staging.back()));
  }
  store.load(checkpoint, wanted);
  for (std::size_t i = 0; i < views.size(); ++i) at::Tensor(views[i].values).copy_(staging[i]);
}

}  // namespace

std::string state_origin(const base::Path& manifest) { return manifest.string() + ": state"; }

std::string state_origin(const checkpoint::Checkpoint& checkpoint) {
  return state_origin(checkpoint.directory / checkpoint::kManifestName);
}

std::vector<checkpoint::LocalSlice> Snapshot::local_slices() const {
  std::vector<checkpoint::LocalSlice> local;
  for (std::size_t i = 0; i < slices.size(); ++i) local.emplace_back(slices[i], bytes_of(values[i]));
  return local;
}

checkpoint::SaveRequest save_request(const Snapshot& snapshot, const std::string& config_hash,
                                     const checkpoint::CheckpointConfig& retention) {
  const int64_t keep_latest = std::max(retention.keep_latest, checkpoint::kLeastKept);
  return {.step = snapshot.state.at("step").get<int64_t>(),
          .state = snapshot.state,
          .config_hash = config_hash,
          .slices = snapshot.local_slices(),
          .retention = {.keep_latest = keep_latest, .keep_every = retention.keep_every},
          .check = [](const checkpoint::Manifest& manifest, const std::string& path) { progress_of(manifest, path); }};
}

int64_t islands_in(const checkpoint::Manifest& manifest) {
  std::set<std::string> others;
  bool any = false;
  for (const checkpoint::ManifestTensor& tensor : manifest.tensors) {
    any = any || tensor.name.starts_with(kAnchor);
    if (tensor.name.starts_with("island.")) others.insert(tensor.name.substr(0, tensor.name.find('/')));
  }
  return any ? 1 + std::ssize(others) : 0;
}

int64_t checkpoint_bytes(const engine::TrainingState& model, int64_t finished_models) {
  ElementCounts counts{.trained = model.arena.parameter_count()};
  for (const engine::FixedTensor& tensor : model.fixed)
    counts.add(tensor.role, tensor.split.times() * tensor.value.numel());
  return counts.bytes(model.ema.size(), finished_models, model.arena.sharding().islands);
}

int64_t checkpoint_bytes(std::span<const ModelTensor> model, std::size_t averages, int64_t finished_models,
                         int64_t islands) {
  ElementCounts counts;
  for (const ModelTensor& tensor : model) counts.add(tensor.role, c10::multiply_integers(tensor.shape));
  return counts.bytes(averages, finished_models, islands);
}

void take_snapshot(engine::TrainingState& model, const Replica& replica, Snapshot& snapshot) {
  const at::NoGradGuard no_grad;
  snapshot.state = engine::to_json(model.progress);
  std::vector<StateView> views;
  for (auto& kind : saved_views(model, replica)) std::ranges::move(kind, std::back_inserter(views));
  if (snapshot.values.empty()) snapshot.values = host_memory(views);
  snapshot.slices.clear();
  snapshot.fixed.clear();
  if (!snapshot.copies) snapshot.copies = std::make_unique<device::CopyStream>(model.arena.gradient().device());
  device::CopyStream& copies = *snapshot.copies;
  copies.after_caller();
  for (std::size_t i = 0; i < views.size(); ++i) {
    snapshot.slices.push_back(views[i].slice);
    snapshot.fixed.push_back(views[i].fixed);
    copies.copy(snapshot.values.at(i), views[i].values);
  }
  snapshot.copied = copies.mark();
  model.reader = copies.mark();
}

void restore(engine::TrainingState& model, checkpoint::CheckpointStore& store,
             const checkpoint::Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  const int64_t islands = islands_in(checkpoint.manifest);
  const int64_t island = model.arena.sharding().island % std::max<int64_t>(1, islands);
  KindsOfViews kinds;
  add_own(model, prefix_of(island), {}, kinds);
  add_common(model, {}, kinds);
  if (model.outer && islands > 0) add_outer(*model.outer, model.arena, {}, kinds);
  for (const auto& kind : kinds) load_views(kind, store, checkpoint);
  if (model.outer && islands == 0) engine::copy_values(model.arena.master(), model.outer->anchor);
  model.refresh_working();
  model.progress = progress_of(checkpoint.manifest, checkpoint.directory / checkpoint::kManifestName);
}

void expect_restorable(std::span<const ModelTensor> model, std::size_t averages,
                       const checkpoint::Checkpoint& checkpoint) {
  std::vector<checkpoint::TensorSlice> slices;
  const auto add = [&](const std::string& prefix, bool trained) {
    for (const ModelTensor& tensor : model) {
      if (is_pretrained(tensor) || is_trained(tensor) != trained) continue;
      slices.push_back(checkpoint::whole_slice(prefix + tensor.name, base::DType::f32, tensor.shape));
    }
  };
  add(kWeightsPrefix, false);
  for (const char* kind : {kWeightsPrefix, kFirstMoment, kSecondMoment}) add(kind, true);
  for (std::size_t i = 0; i < averages; ++i) add(average_prefix(i), true);
  checkpoint::expect_tensors(checkpoint, slices);
  progress_of(checkpoint.manifest, checkpoint.directory / checkpoint::kManifestName);
}

void restore_weights(std::span<const ModelTensor> model, const WeightChoice& choice, checkpoint::CheckpointStore& store,
                     const checkpoint::Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  std::vector<StateView> views;
  for (const ModelTensor& tensor : model) {
    if (is_pretrained(tensor)) continue;
    views.push_back(
        whole_view((is_trained(tensor) ? choice.tensor_prefix() : kWeightsPrefix) + tensor.name, tensor.value));
  }
  load_views(views, store, checkpoint);
}

}  // namespace ddpm::run
