// Whether an earlier export lies at a path: an export replaces nothing else.
//
// What other programs write looks alike. A folder is ours when it holds no name but those that our writers give, and
// says that it is ours where those names are others', too; a file says who wrote it. All throw OutputError for what
// cannot be read.
#pragma once

#include "base/file_system.h"

namespace ddpm::interop {

/// Whether the folder is as write_diffusers_model() leaves it; Python may have left its cache beside it.
bool is_own_model_folder(const base::FileSystem& files, const base::Path& path);
/// Whether the folder is as write_peft_adapter() leaves it.
bool is_own_adapter_folder(const base::FileSystem& files, const base::Path& path);
/// A file of write_torchscript().
bool is_own_torchscript(const base::Path& path);
/// A file of write_onnx().
bool is_own_onnx(const base::Path& path);

}  // namespace ddpm::interop
