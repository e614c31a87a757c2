#include "interop/diffusers_writer.h"

#include <ATen/Tensor.h>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "diffusion/config.h"
#include "diffusion/scheduler_json.h"
#include "interop/unet_json.h"
#include "nn/config.h"

namespace ddpm::interop {
namespace {

void write_json(base::FileSystem& files, const base::Path& path, const base::OrderedJson& json) {
  base::write_new_file(files, path, json.dump(2) + "\n");
}

base::OrderedJson model_index() {
  return {{"_class_name", "DDPMPipeline"},
          {"_diffusers_version", kDiffusersVersion},
          {"scheduler", {"diffusers", "DDPMScheduler"}},
          {"unet", {"diffusers", "UNet2DModel"}}};
}

/// The scheduler's keys with the release whose file it is, where diffusers puts it.
base::OrderedJson scheduler_config(const diffusion::SchedulerConfig& scheduler) {
  base::OrderedJson json;
  const base::OrderedJson keys = diffusion::write_scheduler(scheduler);
  for (const auto& [key, value] : keys.items()) {
    json[key] = value;
    if (key == "_class_name") json["_diffusers_version"] = kDiffusersVersion;
  }
  return json;
}

void write_weights(base::FileSystem& files, const base::Path& path, std::span<const NamedTensor> weights) {
  std::vector<at::Tensor> values;  // row-major float32 on the host, whatever the order in training
  std::vector<checkpoint::SafetensorsTensor> tensors;
  for (const auto& [name, weight] : weights) {
    values.push_back(weight.detach().to(at::kCPU, at::kFloat).contiguous());
    const at::Tensor& value = values.back();
    tensors.push_back({name,
                       base::DType::f32,
                       value.sizes().vec(),
                       {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()}});
  }
  const auto file = files.create_exclusive(path);
  checkpoint::write_safetensors(*file, tensors, {{"format", "pt"}});
  file->sync();
  file->close();
}

/// Removes what dead writers of `target` have left beside it, under names that base::StagedPath gives.
void remove_leftovers(base::FileSystem& files, const base::Path& target) {
  for (const std::string& name : files.list(target.parent_path())) {
    for (const char* kind : {"tmp", "old"}) {
      if (name.starts_with(fmt::format(".{}.{}-", target.filename().string(), kind))) {
        files.remove_all(target.parent_path() / name);
      }
    }
  }
}

}  // namespace

void write_diffusers_model(base::FileSystem& files, const base::Path& directory, const nn::UNet2DConfig& unet,
                           const diffusion::DiffusionConfig& diffusion, std::span<const NamedTensor> weights,
                           const base::Json& normalization, const ModelCard& card) {
  // Absolute and without a closing slash: it has a name and a parent.
  const base::Path target = (std::filesystem::absolute(directory).lexically_normal() / "").parent_path();
  remove_leftovers(files, target);
  base::StagedPath staged(files, target);
  const base::Path& folder = staged.path();
  files.create_directory(folder);
  for (const char* name : {"unet", "scheduler"}) files.create_directory(folder / name);
  write_json(files, folder / "model_index.json", model_index());
  write_json(files, folder / "unet" / "config.json", unet_to_json(unet));
  write_weights(files, folder / "unet" / "diffusion_pytorch_model.safetensors", weights);
  write_json(files, folder / "scheduler" / "scheduler_config.json", scheduler_config(diffusion.scheduler));
  write_json(files, folder / "normalization.json", normalization);
  if (!card.class_names.empty()) write_json(files, folder / "class_names.json", base::OrderedJson(card.class_names));
  base::write_new_file(files, folder / "README.md",
                       model_card_text(card, nn::is_class_conditional(unet), normalization));
  for (const base::Path& filled : {folder / "unet", folder / "scheduler", folder}) files.sync_directory(filled);
  staged.publish_over();
}

}  // namespace ddpm::interop
