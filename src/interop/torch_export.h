// Inside src/interop: export.py, which lies in a model folder and makes a torch.export program of the model. PyTorch
// keeps such programs where it gives up TorchScript, and only Python makes them.
#pragma once

#include <string>

#include "interop/diffusers_writer.h"

namespace ddpm::interop {

inline constexpr const char* kExportScript = "export.py";

/// The text of export.py; "" for a model without a sample_size, whose images have no size to export it with.
std::string export_script(const WrittenModel& model);

}  // namespace ddpm::interop
