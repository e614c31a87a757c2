#include "interop/diffusers_writer.h"

#include <ATen/Tensor.h>
#include <ATen/ops/isfinite.h>

#include "base/error.h"
#include "checkpoint/run_files.h"
#include "checkpoint/safetensors.h"
#include "diffusion/config.h"
#include "diffusion/scheduler_json.h"
#include "interop/card_text.h"
#include "interop/diffusers_reader.h"
#include "interop/field_unet.h"
#include "interop/model_files.h"
#include "interop/unet_json.h"
#include "nn/unet2d.h"

namespace ddpm::interop {
namespace {

void write_json(base::FileSystem& files, const base::Path& path, const base::OrderedJson& json) {
  base::write_new_file(files, path, json.dump(2) + "\n");
}

/// What the model needs and DDPMPipeline does not do, as the beginning of names; "": nothing. It runs any scheduler
/// that takes its generator, but shows the network what is not scaled, which some schedulers and edm need, and gives it
/// nothing beside the noisy image.
std::string_view need_beyond_pipeline(const WrittenModel& model) {
  if (model.scheduler.formulation == diffusion::Formulation::regression) return "";
  if (model.scheduler.formulation == diffusion::Formulation::edm) return "EDM";
  if (diffusion::scales_input(model.scheduler.class_name)) return "ScaledInput";
  if (!diffusion::takes_generator(model.scheduler.class_name)) return "OwnSteps";
  return model.unet.in_channels != model.unet.out_channels ? "MoreInputs" : "";
}

/// diffusers knows no pipeline of that name and says so, where it would otherwise draw something else.
std::string pipeline_class(const WrittenModel& model) {
  if (model.scheduler.formulation == diffusion::Formulation::regression) return "RegressionPipeline";
  const std::string_view need = need_beyond_pipeline(model);
  return fmt::format("{}Pipeline", need.empty() ? "DDPM" : need);
}

/// The class of the network in the pipeline: one that diffusers knows, or a name that it refuses, whichever pipeline
/// opens the folder, where it would otherwise draw something else. It opens unet and scheduler alone, whose own files
/// name their classes, and of a regression the unet.
std::string unet_class(const WrittenModel& model) {
  if (!nn::fits_diffusers(model.unet)) return kFieldClass;
  if (model.mean != nullptr) return "ResidualUNet2D";
  const std::string_view need = need_beyond_pipeline(model);
  return need.empty() ? "UNet2DModel" : fmt::format("{}UNet2D", need);
}

base::OrderedJson model_index(const WrittenModel& model) {
  return {{"_class_name", pipeline_class(model)},
          {"_diffusers_version", kDiffusersVersion},
          {"scheduler", {"diffusers", model.scheduler.class_name}},
          {"unet", {"diffusers", unet_class(model)}}};
}

base::DType stored_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return base::DType::f32;
    case at::kBFloat16:
      return base::DType::bf16;
    case at::kHalf:
      return base::DType::f16;
    default:
      throw base::InternalError("a model folder of {}", toString(dtype));
  }
}

/// The names of what nn::UNet2D does not train, and keeps in float32.
std::set<std::string> constants_of(const nn::UNet2DConfig& config) {
  const nn::UNet2D model(config);
  std::set<std::string> names;
  for (const nn::Parameter* parameter : model.parameters()) {
    if (parameter->role == base::ParameterRole::constant) names.insert(parameter->name);
  }
  return names;
}

void write_parts(base::FileSystem& files, const base::Path& folder, const WrittenModel& model) {
  const bool fits = nn::fits_diffusers(model.unet);
  files.create_directory(folder);
  const base::Path unet = folder / kUNetFolder;
  const base::Path scheduler = folder / kSchedulerFolder;
  files.create_directory(unet);
  files.create_directory(scheduler);
  write_json(files, folder / checkpoint::kModelIndexName, model_index(model));
  write_json(files, unet / kUNetConfigName, unet_to_json(model.unet));
  write_weights(files, unet / (fits ? kWeightsName : kFieldWeights), model.weights, model.dtype,
                constants_of(model.unet));
  if (!fits) base::write_new_file(files, folder / kFieldModule, std::string(field_module()));
  base::write_new_file(files, scheduler / kSchedulerConfigName, model.scheduler.text);
  write_json(files, folder / kNormalizationName, model.normalization);
  const std::vector<std::string>& names = model.card.class_names;
  if (!names.empty()) write_json(files, folder / kClassNamesName, base::OrderedJson(names));
  const std::string script = export_script(model);
  if (!script.empty()) base::write_new_file(files, folder / kExportScriptName, script);
  base::write_new_file(files, folder / kCardName, model_card_text(model));
  if (model.mean != nullptr) write_parts(files, folder / kMeanFolder, *model.mean);
  for (const base::Path& filled : {unet, scheduler, folder}) files.sync_directory(filled);
}

}  // namespace

void write_weights(base::FileSystem& files, const base::Path& path, std::span<const NamedTensor> weights,
                   at::ScalarType dtype, const std::set<std::string>& constants) {
  std::vector<at::Tensor> values;  // row-major on the host, whatever the order in training
  std::vector<checkpoint::SafetensorsTensor> tensors;
  for (const auto& [name, weight] : weights) {
    values.push_back(rounded_weight(name, weight, constants.contains(name) ? at::kFloat : dtype));
    const at::Tensor& value = values.back();
    tensors.push_back({name,
                       stored_type(value.scalar_type()),
                       value.sizes().vec(),
                       {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()}});
  }
  const auto file = files.create_exclusive(path);
  checkpoint::write_safetensors(*file, tensors, {{"format", "pt"}});
  file->sync();
  file->close();
}

at::Tensor rounded_weight(const std::string& name, const at::Tensor& weight, at::ScalarType dtype) {
  at::Tensor value = weight.detach().to(at::kCPU, dtype).contiguous();
  if (dtype == at::kHalf && !at::isfinite(value).all().item<bool>()) {
    throw base::OutputError("{}: a weight is larger than float16 can be, 65504; wanted: bf16, or no --dtype", name);
  }
  return value;
}

at::Tensor rounded_weight(const nn::Parameter& parameter, at::ScalarType dtype) {
  const bool rounds = parameter.role != base::ParameterRole::constant;
  return rounded_weight(parameter.name, parameter.value, rounds ? dtype : at::kFloat);
}

void publish_folder(base::FileSystem& files, const base::Path& directory,
                    const std::function<void(const base::Path& folder)>& write) {
  // Absolute and without a closing slash: it has a name and a parent.
  const base::Path target = (std::filesystem::absolute(directory).lexically_normal() / "").parent_path();
  base::remove_leftovers(files, target);
  base::StagedPath staged(files, target);
  write(staged.path());
  staged.publish_over();
}

void write_diffusers_model(base::FileSystem& files, const base::Path& directory, const WrittenModel& model) {
  publish_folder(files, directory, [&](const base::Path& folder) { write_parts(files, folder, model); });
}

}  // namespace ddpm::interop
