#include "denoise/folder_weights.h"

#include <filesystem>

#include "base/error.h"
#include "interop/diffusers_reader.h"
#include "interop/model_files.h"
#include "run/weight_choice.h"

namespace ddpm::denoise {

namespace {

/// Whether the folder is named as one of averages, which a closing slash or a point may follow.
bool is_of_averages(const base::Path& path) {
  return base::plain_path(std::filesystem::absolute(path)).filename() == interop::kAveragesFolder;
}

}  // namespace

bool holds_weights(const base::Path& path) {
  return interop::is_model_folder(path) || interop::is_model_folder(path / interop::kAveragesFolder);
}

base::Path folder_of_weights(const base::Path& path, const WeightsAsked& asked) {
  const auto& [choice, text, possible] = asked;
  base::Path averages = path / interop::kAveragesFolder;
  const bool averaged = interop::is_model_folder(averages);
  const bool raw = interop::is_model_folder(path);
  if (!choice.empty() && choice != run::kRawWeights && choice != run::kFirstAverage) {
    throw base::ConfigError("{}: {} is a model folder; wanted: {}", text, path.string(), possible);
  }
  if (choice.empty() && averaged && raw) {
    throw base::ConfigError(
        "{}: it holds the weights unet/ and their averages {}/; wanted: {}, or the path of one of both", path.string(),
        interop::kAveragesFolder, possible);
  }
  if (choice == run::kFirstAverage && !averaged && !is_of_averages(path)) {
    throw base::ConfigError("{}: {} holds no folder {} with averages; wanted: raw, or nothing", text, path.string(),
                            interop::kAveragesFolder);
  }
  if (choice == run::kRawWeights && !raw && averaged) {
    throw base::ConfigError("{}: {} holds averages alone, in {}; wanted: ema, or nothing", text, path.string(),
                            interop::kAveragesFolder);
  }
  return averaged && choice != run::kRawWeights ? averages : path;
}

}  // namespace ddpm::denoise
