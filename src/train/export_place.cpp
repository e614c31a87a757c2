#include "train/export_place.h"

#include <filesystem>

#include "base/error.h"
#include "base/input_file.h"
#include "base/named.h"
#include "interop/own_export.h"

namespace ddpm::train {
namespace {

/// Whether what lies at `output` is an earlier export of the format.
bool is_export(const base::FileSystem& files, ExportFormat format, const base::Path& output) {
  switch (format) {
    case ExportFormat::diffusers:
      return interop::is_own_model_folder(files, output);
    case ExportFormat::peft:
      return interop::is_own_adapter_folder(files, output);
    case ExportFormat::torchscript:
      return interop::is_own_torchscript(output);
    case ExportFormat::onnx:
      return interop::is_own_onnx(output);
  }
  throw base::InternalError("export format {}", static_cast<int>(format));
}

}  // namespace

void expect_place(const base::FileSystem& files, const base::Path& output) {
  if (!files.exists(base::parent_of(output))) {
    throw base::OutputError("--output {}: there is no folder {}", output.string(), base::parent_of(output).string());
  }
  if (const auto target = base::link_target(output)) {
    throw base::OutputError("--output {}: is a symbolic link, to {}; name the place itself, or another one",
                            output.string(), target->string());
  }
}

void expect_free(const base::FileSystem& files, ExportFormat format, const base::Path& output) {
  if (!files.exists(output) || is_export(files, format, output)) return;
  throw base::OutputError("--output {}: is already there, and no earlier export as {}; name another place",
                          output.string(), base::name_of(format));
}

void expect_apart(const base::Path& output, const base::Path& other, std::string_view what) {
  std::error_code ignored;
  for (base::Path place = std::filesystem::weakly_canonical(other, ignored); !place.empty();
       place = place.parent_path()) {
    if (std::filesystem::equivalent(output, place, ignored)) {
      throw base::OutputError("--output {}: is or holds {} ({}); name another place", output.string(), what,
                              other.string());
    }
    if (place == place.root_path()) return;
  }
}

}  // namespace ddpm::train
