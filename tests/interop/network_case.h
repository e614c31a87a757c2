// A model in every form in which others run it, beside what ddpm predicts: what networks_peer.py checks.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "checkpoint/safetensors.h"
#include "diffusion/config.h"
#include "interop/diffusers_writer.h"
#include "interop/network_writer.h"

namespace ddpm::interop {

/// The layers of a volume beside each other, as other programs have them.
inline at::Tensor as_given(const at::Tensor& images, const nn::UNet2DConfig& c) {
  return c.dimensions == 3 ? images.unflatten(2, {nn::image_size(c).depth, -1}).contiguous() : images.contiguous();
}

inline void write_tensors(base::FileSystem& files, const base::Path& path, const std::vector<NamedTensor>& values) {
  std::vector<checkpoint::SafetensorsTensor> tensors;
  for (const auto& [name, value] : values) {
    if (!value.defined()) continue;
    tensors.push_back({name,
                       value.scalar_type() == at::kLong ? base::DType::i64 : base::DType::f32,
                       value.sizes().vec(),
                       {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()}});
  }
  const auto file = files.create_exclusive(path);
  checkpoint::write_safetensors(*file, tensors);
  file->close();
}

/// Writes `path`, a model folder, and path.pt, path.onnx and path.safetensors beside it. `unet` has a sample_size.
inline void write_network_case(base::FileSystem& files, const base::Path& path, const nn::UNet2D& unet,
                               const at::Tensor& x, const at::Tensor& timesteps, const nn::Conditions& given) {
  const at::NoGradGuard no_grad;
  const nn::UNet2DConfig& c = unet.config();
  const at::Tensor output = unet.forward(x, timesteps, given, {});
  const std::string name = path.string();
  write_tensors(files, name + ".safetensors",
                {{"sample", as_given(x, c)},
                 {"timestep", timesteps},
                 {"class_labels", given.class_labels},
                 {"parameters", given.parameters},
                 {"output", as_given(output, c)}});
  std::vector<NamedTensor> weights;
  for (const nn::Parameter* parameter : unet.parameters()) weights.emplace_back(parameter->name, parameter->value);
  const diffusion::SchedulerConfig scheduler;
  const base::Json normalization = base::Json::object();
  const ModelCard card;
  write_diffusers_model(files, path, {c, scheduler, weights, normalization, card});
  const Network network{.unet = unet, .whole_timesteps = takes_whole_timesteps(c, scheduler.formulation)};
  write_torchscript(files, name + ".pt", network);
  write_onnx(files, name + ".onnx", network);
}

}  // namespace ddpm::interop
