#include "denoise/folder_weights.h"

#include "base/error.h"
#include "interop/diffusers_reader.h"

namespace ddpm::denoise {

bool holds_weights(const base::Path& path) {
  return interop::is_model_folder(path) || interop::is_model_folder(path / kAverages);
}

base::Path folder_of_weights(const base::Path& path, const WeightsAsked& asked) {
  const auto& [choice, text, possible] = asked;
  base::Path averages = path / kAverages;
  const bool averaged = interop::is_model_folder(averages);
  const bool raw = interop::is_model_folder(path);
  if (!choice.empty() && choice != "raw" && choice != "ema") {
    throw base::ConfigError("{}: {} is a model folder; wanted: {}", text, path.string(), possible);
  }
  if (choice.empty() && averaged && raw) {
    throw base::ConfigError(
        "{}: it holds the weights unet/ and their averages {}/; wanted: {}, or the path of one of both", path.string(),
        kAverages, possible);
  }
  if (choice == "ema" && !averaged && path.filename() != kAverages) {
    throw base::ConfigError("{}: {} holds no folder {} with averages; wanted: raw, or nothing", text, path.string(),
                            kAverages);
  }
  if (choice == "raw" && !raw && averaged) {
    throw base::ConfigError("{}: {} holds averages alone, in {}; wanted: ema, or nothing", text, path.string(),
                            kAverages);
  }
  return averaged && choice != "raw" ? averages : path;
}

}  // namespace ddpm::denoise
