// Models of checkpoints and of model folders, in the forms in which other programs take them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "run/runtime.h"
#include "train/export_place.h"

namespace ddpm::denoise {
struct AdapterBase;
}

namespace ddpm::train {

/// The type of the weights that are written.
enum class ExportType : uint8_t { fp32, bf16, fp16 };
constexpr auto names_of(ExportType /*type*/) { return std::to_array<std::string_view>({"fp32", "bf16", "fp16"}); }

struct ExportRequest {
  base::Path source;              ///< as denoise::load_model() takes it
  std::string weights;            ///< as denoise::load_model() takes them
  std::string weights_said = {};  ///< what chose them, in words, where that is not the option --weights
  ExportFormat format = ExportFormat::diffusers;
  ExportType type = ExportType::fp32;
  base::Path output;
  std::optional<base::Path> adapter_base = std::nullopt;  ///< as denoise::load_model() takes it
};

/// Writes the export. What has the name of the output is replaced if it is an earlier export of the same format, and
/// refused otherwise, and so is a symbolic link, and a place where another process is writing an export. Returns what
/// was exported: "step 1000, ema:0 weights". Collective; throws OutputError (exit code 4) for what cannot be read,
/// written or expressed.
std::string export_checkpoint(const ExportRequest& request, const run::Runtime& runtime);

/// Writes the checkpoint in the folder `checkpoint` as a diffusers folder: the average that RUN/model is made of, or
/// the raw weights. Adapters are merged into the weights of `adapter_base`, wherever the checkpoint remembers them;
/// null: the model has none. Collective.
void export_best(const base::Path& checkpoint, const denoise::AdapterBase* adapter_base, const base::Path& output,
                 const run::Runtime& runtime);

}  // namespace ddpm::train
