#include "train/checkpointing.h"

#include <charconv>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/error.h"

namespace ddpm::train {
namespace {

/// A tensor of the state: its name in checkpoints and its memory.
struct StateTensor {
  std::string name;
  at::Tensor value;
};

std::vector<StateTensor> state_tensors(const ModelState& model) {
  std::vector<StateTensor> tensors;
  for (const nn::Parameter* constant : model.constants) tensors.push_back({"model/" + constant->name, constant->value});
  const auto add = [&](const std::string& prefix, const at::Tensor& flat) {
    for (const auto& entry : model.arena.entries()) {
      tensors.push_back({prefix + entry.name, parallel::ParameterArena::view(flat, entry)});
    }
  };
  add("model/", model.arena.master());
  add("exp_avg/", model.exp_avg);
  add("exp_avg_sq/", model.exp_avg_sq);
  for (std::size_t i = 0; i < model.ema.size(); ++i) add(fmt::format("ema.{}/", i), model.ema[i]);
  return tensors;
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

base::Json to_json(const Progress& progress) {
  return {{"step", progress.step},
          {"applied_updates", progress.applied_updates},
          {"images_seen", progress.images_seen},
          {"loss_scale", progress.scaler.scale},
          {"loss_scale_growth_tracker", progress.scaler.growth_tracker},
          {"consecutive_skips", progress.scaler.consecutive_skips}};
}

Progress progress_from_json(const base::Json& state, const base::Path& where) {
  try {
    Progress progress;
    progress.step = state.at("step").get<int64_t>();
    progress.applied_updates = state.at("applied_updates").get<int64_t>();
    progress.images_seen = state.at("images_seen").get<int64_t>();
    progress.scaler.scale = state.at("loss_scale").get<double>();
    progress.scaler.growth_tracker = state.at("loss_scale_growth_tracker").get<int64_t>();
    progress.scaler.consecutive_skips = state.at("consecutive_skips").get<int64_t>();
    return progress;
  } catch (const base::Json::exception& error) {
    throw base::OutputError("{}: the manifest's state is not a training run's: {}", where.string(), error.what());
  }
}

/// Reads whole tensors into memory of any axis order, by way of contiguous host copies.
void load_tensors(const std::vector<StateTensor>& tensors, checkpoint::CheckpointStore& store,
                  const checkpoint::Checkpoint& checkpoint) {
  std::vector<at::Tensor> staging;
  std::vector<checkpoint::WantedSlice> wanted;
  for (const StateTensor& tensor : tensors) {
    staging.push_back(at::empty(tensor.value.sizes(), at::kFloat));
    wanted.emplace_back(checkpoint::whole_slice(tensor.name, base::DType::f32, tensor.value.sizes().vec()),
                        bytes_of(staging.back()));
  }
  store.load(checkpoint, wanted);
  for (std::size_t i = 0; i < tensors.size(); ++i) at::Tensor(tensors[i].value).copy_(staging[i]);
}

}  // namespace

std::vector<checkpoint::LocalSlice> Snapshot::local_slices() const {
  std::vector<checkpoint::LocalSlice> local;
  for (std::size_t i = 0; i < slices.size(); ++i) local.emplace_back(slices[i], bytes_of(values[i]));
  return local;
}

Snapshot take_snapshot(const ModelState& model, int rank, int world_size) {
  const at::NoGradGuard no_grad;
  const std::vector<StateTensor> tensors = state_tensors(model);
  int64_t total = 0;
  for (const StateTensor& tensor : tensors) total += tensor.value.numel();
  const layout::Range mine = layout::even_part(total, world_size, rank);

  Snapshot snapshot;
  snapshot.state = to_json(model.progress);
  int64_t begin = 0;
  for (const auto& [name, value] : tensors) {
    const layout::Range part = layout::intersect({begin, begin + value.numel()}, mine);
    if (!part.empty()) {
      const layout::Range flat{part.begin - begin, part.end - begin};
      snapshot.slices.push_back(checkpoint::flat_slice(name, base::DType::f32, value.sizes().vec(), flat));
      snapshot.values.push_back(value.contiguous()
                                    .flatten()
                                    .narrow(0, flat.begin, flat.size())
                                    .to(at::kCPU, at::kFloat, false, /*copy=*/true));
    }
    begin += value.numel();
  }
  return snapshot;
}

void restore(ModelState& model, checkpoint::CheckpointStore& store, const checkpoint::Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  load_tensors(state_tensors(model), store, checkpoint);
  model.arena.refresh_working();
  model.progress = progress_from_json(checkpoint.manifest.state, checkpoint.directory);
}

WeightChoice WeightChoice::parse(const std::string& text) {
  if (text == "raw") return {};
  if (text == "ema") return {.ema = 0};
  if (text.starts_with("ema:")) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(text.data() + 4, text.data() + text.size(), index);
    if (error == std::errc{} && end == text.data() + text.size()) return {.ema = index};
  }
  throw base::ConfigError("--weights {}: raw, ema or ema:I (I from 0) is wanted", text);
}

std::string WeightChoice::tensor_prefix() const { return ema ? fmt::format("ema.{}/", *ema) : "model/"; }

void restore_weights(nn::UNet2D& unet, const WeightChoice& choice, checkpoint::CheckpointStore& store,
                     const checkpoint::Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  std::vector<StateTensor> tensors;
  for (const nn::Parameter* parameter : unet.parameters()) {
    tensors.push_back({(parameter->trained ? choice.tensor_prefix() : "model/") + parameter->name, parameter->value});
  }
  load_tensors(tensors, store, checkpoint);
}

}  // namespace ddpm::train
