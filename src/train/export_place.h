// Where `ddpm checkpoint export` may write: nothing of what others made is replaced.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/file_system.h"

namespace ddpm::train {

/// A diffusers folder, one file that PyTorch or an ONNX runtime loads without this program, or a run's adapters alone
/// as the folder that PEFT loads.
enum class ExportFormat : uint8_t { diffusers, torchscript, onnx, peft };
constexpr auto names_of(ExportFormat /*type*/) {
  return std::to_array<std::string_view>({"diffusers", "torchscript", "onnx", "peft"});
}

/// All throw OutputError. The output is in a folder that exists, and is not a symbolic link.
void expect_place(const base::FileSystem& files, const base::Path& output);
/// Nothing lies there but what an earlier export has written.
void expect_free(const base::FileSystem& files, ExportFormat format, const base::Path& output);
/// The output is not `other`, which is called `what`, and does not hold it.
void expect_apart(const base::Path& output, const base::Path& other, std::string_view what);

}  // namespace ddpm::train
