#include "run/snapshot.h"

#include <charconv>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "base/counted.h"
#include "base/error.h"
#include "checkpoint/slice_reader.h"
#include "device/scalar_type.h"
#include "optim/post_hoc.h"

namespace ddpm::run {
namespace {

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

/// Host memory for the values of a slice, as a checkpoint holds them.
at::Tensor host_memory(const StateView& view) {
  return at::empty(view.values.sizes(), at::TensorOptions().dtype(device::scalar_type(view.slice.dtype)));
}

StateView whole_view(const std::string& name, const at::Tensor& values) {
  return {checkpoint::whole_slice(name, base::DType::f32, values.sizes().vec()), values};
}

std::vector<StateView> fixed_views(const engine::TrainingState& model, const Replica& replica) {
  std::vector<StateView> views;
  for (const engine::FixedTensor& tensor : model.fixed) {
    if (tensor.role == base::ParameterRole::pretrained || !(tensor.split.cuts() || replica.has_shared)) continue;
    views.push_back({part_slice("model/" + tensor.name, stored_dtype(tensor.value.scalar_type()),
                                tensor.value.sizes().vec(), tensor.split),
                     tensor.value});
  }
  return views;
}

/// All that this rank keeps, by kind, so that loading needs no second copy of everything at once.
std::vector<std::vector<StateView>> views_by_kind(const engine::TrainingState& model, const Replica& replica) {
  std::vector<std::vector<StateView>> kinds;
  if (replica.has_fixed) kinds.push_back(fixed_views(model, replica));
  kinds.push_back(state_views(model.arena, model.arena.master(), "model/", replica));
  kinds.push_back(state_views(model.arena, model.exp_avg, "exp_avg/", replica));
  kinds.push_back(state_views(model.arena, model.exp_avg_sq, "exp_avg_sq/", replica));
  for (std::size_t i = 0; i < model.ema.size(); ++i) {
    kinds.push_back(state_views(model.arena, model.ema[i], fmt::format("ema.{}/", i), replica));
  }
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
  [[nodiscard]] int64_t bytes(std::size_t averages, int64_t models) const {
    const auto copies = static_cast<int64_t>(3 + averages);  // weights, two moments, averages
    const int64_t exported = pretrained > 0 ? trained + models * pretrained : models * trained;
    return (copies * trained + (1 + models) * fixed + exported) * static_cast<int64_t>(sizeof(float));
  }
};

/// Reads into memory of any axis order, by way of contiguous host copies.
void load_views(const std::vector<StateView>& views, checkpoint::CheckpointStore& store,
                const checkpoint::Checkpoint& checkpoint) {
  std::vector<at::Tensor> staging;
  std::vector<checkpoint::WantedSlice> wanted;
  for (const StateView& view : views) {
    staging.push_back(host_memory(view));
    wanted.emplace_back(view.slice, bytes_of(staging.back()));
  }
  store.load(checkpoint, wanted);
  for (std::size_t i = 0; i < views.size(); ++i) at::Tensor(views[i].values).copy_(staging[i]);
}

}  // namespace

std::string state_origin(const base::Path& manifest) { return manifest.string() + ": state"; }

std::vector<checkpoint::LocalSlice> Snapshot::local_slices() const {
  std::vector<checkpoint::LocalSlice> local;
  for (std::size_t i = 0; i < slices.size(); ++i) local.emplace_back(slices[i], bytes_of(values[i]));
  return local;
}

checkpoint::SaveRequest save_request(const Snapshot& snapshot, const std::string& config_hash,
                                     const checkpoint::CheckpointConfig& retention) {
  constexpr int64_t kLeastKept = 2;  // before a damaged checkpoint there is an older one
  const int64_t keep_latest = std::max(retention.keep_latest, kLeastKept);
  return {.step = snapshot.state.at("step").get<int64_t>(),
          .state = snapshot.state,
          .config_hash = config_hash,
          .slices = snapshot.local_slices(),
          .retention = {.keep_latest = keep_latest, .keep_every = retention.keep_every},
          .check = [](const checkpoint::Manifest& manifest, const std::string& path) { progress_of(manifest, path); }};
}

int64_t checkpoint_bytes(const engine::TrainingState& model, int64_t finished_models) {
  ElementCounts counts{.trained = model.arena.parameter_count()};
  for (const engine::FixedTensor& tensor : model.fixed)
    counts.add(tensor.role, tensor.split.times() * tensor.value.numel());
  return counts.bytes(model.ema.size(), finished_models);
}

int64_t checkpoint_bytes(std::span<const ModelTensor> model, std::size_t averages, int64_t finished_models) {
  ElementCounts counts;
  for (const ModelTensor& tensor : model) counts.add(tensor.role, c10::multiply_integers(tensor.shape));
  return counts.bytes(averages, finished_models);
}

void take_snapshot(const engine::TrainingState& model, const Replica& replica, Snapshot& snapshot) {
  const at::NoGradGuard no_grad;
  snapshot.state = engine::to_json(model.progress);
  snapshot.slices.clear();
  for (const auto& kind : views_by_kind(model, replica)) {
    for (const StateView& view : kind) {
      const std::size_t i = snapshot.slices.size();
      snapshot.slices.push_back(view.slice);
      if (i == snapshot.values.size()) snapshot.values.push_back(host_memory(view));
      snapshot.values[i].copy_(view.values);
    }
  }
}

void restore(engine::TrainingState& model, checkpoint::CheckpointStore& store,
             const checkpoint::Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  for (const auto& kind : views_by_kind(model, {})) load_views(kind, store, checkpoint);
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
  add("model/", false);
  for (const char* kind : {"model/", "exp_avg/", "exp_avg_sq/"}) add(kind, true);
  for (std::size_t i = 0; i < averages; ++i) add(fmt::format("ema.{}/", i), true);
  checkpoint::expect_tensors(checkpoint, slices);
  progress_of(checkpoint.manifest, checkpoint.directory / checkpoint::kManifestName);
}

WeightChoice WeightChoice::parse(const std::string& text, const std::string& option) {
  if (text == "raw") return {};
  if (text == "ema") return {.ema = 0};
  if (text.starts_with("ema:")) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(text.data() + 4, text.data() + text.size(), index);
    if (error == std::errc{} && end == text.data() + text.size()) return {.ema = index};
  }
  constexpr std::string_view kLength = "length:";
  if (text.starts_with(kLength)) {
    double length = 0.0;
    const auto [end, error] = std::from_chars(text.data() + kLength.size(), text.data() + text.size(), length);
    if (error == std::errc{} && end == text.data() + text.size() && length >= optim::kLeastLength &&
        length <= optim::kGreatestLength) {
      return {.relative_length = length};
    }
  }
  throw base::ConfigError("{} {}: raw, ema, ema:I (I from 0) or length:S (S from {} to {}) is wanted", option, text,
                          optim::kLeastLength, optim::kGreatestLength);
}

WeightChoice WeightChoice::of_run(const std::string& text, const std::string& option, std::size_t averages,
                                  const base::Path& run) {
  if (text.empty()) return averages > 0 ? WeightChoice{.ema = 0} : WeightChoice{};
  const WeightChoice choice = parse(text, option);
  if (!choice.ema || *choice.ema < averages) return choice;
  throw base::ConfigError("{} {}: {} keeps {}", option, text, run.string(), base::counted(averages, "average"));
}

std::string WeightChoice::text() const {
  if (relative_length) return fmt::format("length:{}", *relative_length);
  return ema ? fmt::format("ema:{}", *ema) : "raw";
}

std::string WeightChoice::tensor_prefix() const { return ema ? fmt::format("ema.{}/", *ema) : "model/"; }

void restore_weights(std::span<const ModelTensor> model, const WeightChoice& choice, checkpoint::CheckpointStore& store,
                     const checkpoint::Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  std::vector<StateView> views;
  for (const ModelTensor& tensor : model) {
    if (is_pretrained(tensor)) continue;
    views.push_back(whole_view((is_trained(tensor) ? choice.tensor_prefix() : "model/") + tensor.name, tensor.value));
  }
  load_views(views, store, checkpoint);
}

}  // namespace ddpm::run
