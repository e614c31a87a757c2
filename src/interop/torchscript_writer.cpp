#include <exception>
#include <memory>
#include <string>

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

#include "base/error.h"
#include "base/version.h"
#include "interop/diffusers_writer.h"
#include "interop/network_writer.h"
#include "interop/torchscript_code.h"

namespace ddpm::interop {
namespace {

using torch::jit::Module;

/// Registers a weight under its dotted name, with a module for each part of it.
void add_weight(Module module, const std::string& name, const at::Tensor& weight,
                const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  const std::size_t dot = name.find('.');
  const std::string part = name.substr(0, dot);
  if (dot == std::string::npos) return module.register_parameter(part, weight, /*is_buffer=*/false);
  if (!module.hasattr(part)) {
    module.register_module(part, Module(c10::QualifiedName("__torch__.Part"), unit, /*shouldMangle=*/true));
  }
  add_weight(module.attr(part).toModule(), name.substr(dot + 1), weight, unit);
}

}  // namespace

void write_torchscript(base::FileSystem& files, const base::Path& path, const Network& network) {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module module(c10::QualifiedName("__torch__.UNet2D"), unit);
  for (const nn::Parameter* parameter : network.unet.parameters()) {
    add_weight(module, parameter->name, rounded_weight(*parameter, network.dtype), unit);
  }
  module.define(torchscript_code(network.unet.graph(), "conv_in.weight"));
  module.eval();
  base::remove_leftovers(files, path);
  base::write_staged(files, path, [&module](base::WritableFile& file) {
    std::exception_ptr failure;  // kept until LibTorch is done: its writer writes on when it is destroyed
    const auto write = [&file, &failure](const void* bytes, std::size_t size) {
      try {
        if (!failure) file.write({static_cast<const std::byte*>(bytes), size});
      } catch (const base::Error&) {
        failure = std::current_exception();
      }
      return size;
    };
    torch::jit::ExportModule(module, write, {{kProducer, base::kVersion}});
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace ddpm::interop
