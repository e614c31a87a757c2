#include "interop/own_export.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "base/input_file.h"
#include "checkpoint/run_files.h"
#include "interop/card_parts.h"
#include "interop/diffusers_reader.h"
#include "interop/field_unet.h"
#include "interop/model_files.h"
#include "interop/network_writer.h"
#include "interop/peft_config.h"
#include "interop/written_model.h"

namespace ddpm::interop {
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

}  // namespace

bool is_own_model_folder(const base::FileSystem& files, const base::Path& path) {
  return holds_only(files, path, {checkpoint::kModelIndexName, kNormalizationName},
                    {"__pycache__", checkpoint::kModelIndexName, kCardName, kClassNamesName, kExportScriptName,
                     kFieldModule, kMeanFolder, kNormalizationName, kSchedulerFolder, kUNetFolder});
}

bool is_own_adapter_folder(const base::FileSystem& files, const base::Path& path) {
  return holds_only(files, path, {kAdapterConfig, kCardName}, {kAdapterConfig, kAdapterWeights, kCardName}) &&
         beginning_of(path / kCardName).find(kCardSign) != std::string::npos;
}

bool is_own_torchscript(const base::Path& path) {
  return beginning_of(path).find(std::string("/extra/") + kProducer) != std::string::npos;
}

/// After ir_version comes producer_name.
bool is_own_onnx(const base::Path& path) { return beginning_of(path).find(std::string("\x12\x04") + kProducer) == 2; }

}  // namespace ddpm::interop
