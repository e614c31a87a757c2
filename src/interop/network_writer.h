// Writes a network as one file that other programs run without this one: TorchScript, whose graph consists of ATen's
// own operators, or ONNX of opset 18, whose graph is of the standard's operators. Both are made from nn::graph::Graph.
//
// - Input "sample": float32 [N, C, H, W], of volumes [N, C, D, H, W], for any N.
// - Input "timestep": int64 [N], or float32 where the network is told noise levels or times between whole steps.
// - Input "class_labels", where the model has classes: int64 [N], of class_embed_type = "identity" float32 [N, width].
// - Input "parameters", where the model has parameters: float32 [N, num_parameters], as the model takes them.
// - Output: float32, of the shape that the model predicts.
//
// Files appear whole or not at all. Errors: base::OutputError (exit code 4).
#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

#include "base/file_system.h"
#include "nn/unet2d.h"

namespace ddpm::interop {

struct Network {
  const nn::UNet2D& unet;  ///< bound to its weights, on the host
  bool whole_timesteps = true;
  /// The type of the stored weights: float32, bfloat16 or float16. TorchScript computes in it; ONNX, whose runtimes
  /// lack many operators in the short types, turns the weights into float32 first.
  at::ScalarType dtype = at::kFloat;
};

/// What files say that wrote them: ONNX as producer_name, TorchScript by a file of that name in its archive.
inline constexpr const char* kProducer = "ddpm";

/// Its weights have the names of diffusers' state dict; it takes images of any size that the model takes.
void write_torchscript(base::FileSystem& files, const base::Path& path, const Network& network);

/// Throws base::OutputError where `bytes` are more than one ONNX file holds: messages of protobuf end below 2 GiB.
void expect_onnx_size(const base::Path& path, uint64_t bytes);
/// It takes images of sample_size, if the model has one. Refuses a model that is too large, by expect_onnx_size().
void write_onnx(base::FileSystem& files, const base::Path& path, const Network& network);

}  // namespace ddpm::interop
