#include "train/export_place.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <string>

#include "base/error.h"
#include "base/input_file.h"
#include "checkpoint/run_files.h"
#include "interop/diffusers_reader.h"
#include "interop/model_files.h"
#include "interop/network_writer.h"
#include "interop/peft_config.h"
#include "interop/written_model.h"

namespace ddpm::train {
namespace {

/// The first bytes of a file, and nothing of anything else.
std::string beginning_of(const base::Path& path) {
  constexpr std::size_t kBytes = 65536;
  if (base::kind_of(path) != base::FileKind::regular) return {};
  std::string seen(kBytes, '\0');
  seen.resize(base::InputFile(path).read_up_to(0, std::as_writable_bytes(std::span(seen))));
  return seen;
}

/// Whether a folder holds `needed`, and nothing but the names `known`.
bool holds_only(const base::FileSystem& files, const base::Path& folder, const std::set<std::string>& needed,
                const std::set<std::string>& known) {
  return std::ranges::all_of(needed, [&](const std::string& name) { return files.exists(folder / name); }) &&
         std::ranges::all_of(files.list(folder), [&](const std::string& name) { return known.contains(name); });
}

/// Whether what lies at `output` is an earlier export of the format: what other programs write looks alike.
bool is_export(const base::FileSystem& files, ExportFormat format, const base::Path& output) {
  switch (format) {
    case ExportFormat::diffusers:
      return holds_only(
          files, output, {checkpoint::kModelIndexName, interop::kNormalizationName},
          {"README.md", "__pycache__", "class_names.json", "export.py", "field_unet.py", interop::kMeanFolder,
           checkpoint::kModelIndexName, interop::kNormalizationName, interop::kSchedulerFolder, interop::kUNetFolder});
    case ExportFormat::peft:
      return holds_only(files, output, {interop::kAdapterConfig, "README.md"},
                        {"README.md", interop::kAdapterConfig, interop::kAdapterWeights}) &&
             beginning_of(output / "README.md").find("trained with ddpm") != std::string::npos;
    case ExportFormat::torchscript:
      return beginning_of(output).find(std::string("/extra/") + interop::kProducer) != std::string::npos;
    case ExportFormat::onnx:  // after ir_version, producer_name
      return beginning_of(output).find(std::string("\x12\x04") + interop::kProducer) == 2;
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
