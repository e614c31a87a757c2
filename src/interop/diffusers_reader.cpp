#include "interop/diffusers_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json_fields.h"
#include "checkpoint/run_files.h"
#include "interop/model_files.h"
#include "interop/unet_json.h"

namespace ddpm::interop {
namespace {

constexpr uint64_t kMaxNormalizationBytes = uint64_t{256} << 20U;  // as of dataset.json, whose transforms it has

bool is_file(const base::Path& path) { return base::kind_of(path) == base::FileKind::regular; }

/// `text` with the numbers that JSON has no form for, and Python writes by their names, as texts:
/// DPMSolverMultistepScheduler's lambda_min_clipped is -Infinity. What reads a key knows whether that has a meaning.
std::string with_named_numbers_as_texts(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNames = {"-Infinity", "Infinity", "NaN"};
  std::string result;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const auto* name = std::ranges::find_if(kNames, [&](std::string_view n) { return rest.starts_with(n); });
    std::size_t taken = 1;
    if (!in_text && name != kNames.end()) {
      taken = name->size();
      result.append("\"").append(*name).append("\"");
    } else {
      if (in_text && rest.front() == '\\') taken = std::min<std::size_t>(2, rest.size());
      if (rest.front() == '"') in_text = !in_text;
      result += rest.substr(0, taken);
    }
    i += taken;
  }
  return result;
}

/// `config.json` of the file or folder; the only errors are OutputError (cannot be read) and ConfigError (its content).
nn::UNet2DConfig read_config(const base::Path& path) {
  const base::Path folder = unet_folder(path);
  if (folder.empty()) {
    throw base::OutputError("{}: wanted: a diffusers config.json, or a folder with config.json or unet/config.json{}",
                            path.string(), hub_hint(path));
  }
  const base::Path file = is_file(path) ? path : folder / kUNetConfigName;
  return unet_from_json(read_json(file), file.string());
}

}  // namespace

std::string hub_hint(const base::Path& path) {
  std::string name = path.string();
  if (name.ends_with('/')) name.pop_back();
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  const std::size_t slash = name.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == name.size() || name.front() == '.' ||
      !std::all_of(name.begin(), name.end(), [&](char c) { return fits(c) || c == '/'; }) ||
      name.find('/', slash + 1) != std::string::npos || base::is_there(path)) {
    return "";
  }
  return fmt::format(
      "; nothing is downloaded: a model of that name on the Hugging Face hub comes here by hf download {0} "
      "--local-dir {0}",
      name);
}

base::Path pipeline_folder(const base::Path& path) {
  const base::Path unet = unet_folder(path);
  if (unet.empty()) return path;
  const base::Path plain = base::plain_path(std::filesystem::absolute(unet));
  const base::Path name = plain.filename();
  return name == kUNetFolder || name == kAveragesFolder ? plain.parent_path() : unet;
}

bool is_model_folder(const base::Path& path) {
  return base::kind_of(path) == base::FileKind::folder && !unet_folder(path).empty();
}

nn::UNet2DConfig read_unet_config(const base::Path& path) {
  try {
    return read_config(path);
  } catch (const base::OutputError& error) {
    throw base::ConfigError("model.config: {}", error.what());
  }
}

namespace {

/// Throws for a pipeline whose unet draws latents, which another of its models makes images of.
void expect_images(const base::Path& path) {
  const base::Path file = pipeline_folder(path) / checkpoint::kModelIndexName;
  if (!base::is_there(file)) return;
  const base::Json index = read_json(file);
  for (const char* decoder : {"vqvae", "vae"}) {
    if (!index.is_object() || !index.contains(decoder)) continue;
    throw base::OutputError(
        "{}: its unet draws latents, of which its {} makes images; wanted: a unet that draws images", file.string(),
        decoder);
  }
}

}  // namespace

nn::UNet2DConfig read_model_config(const base::Path& folder) {
  try {
    expect_images(folder);
    return read_config(folder);
  } catch (const base::ConfigError& error) {
    throw base::OutputError("{}", error.what());
  }
}

std::optional<SchedulerFile> read_scheduler(const base::Path& folder) {
  // Pipelines of 2022, such as google/ddpm-cifar10-32, have all files in one folder.
  base::Path file = pipeline_folder(folder) / kSchedulerFolder / kSchedulerConfigName;
  if (!base::is_there(file)) file = pipeline_folder(folder) / kSchedulerConfigName;
  if (!base::is_there(file)) file = unet_folder(folder) / kSchedulerConfigName;  // that folder may be called unet
  if (!base::is_there(file)) return std::nullopt;
  std::string text = base::posix_file_system()->read(file, kMostJsonBytes);
  base::Json json = base::parse_json_file(with_named_numbers_as_texts(text), file.string(), kMostJsonBytes);
  SchedulerFile scheduler{.path = file, .text = std::move(text), .json = std::move(json)};
  if (!scheduler.json.is_object()) throw base::OutputError("{}: not a JSON object", file.string());
  const auto name = scheduler.json.find("_class_name");
  if (name != scheduler.json.end() && name->is_string()) scheduler.class_name = name->get<std::string>();
  return scheduler;
}

std::vector<std::string> read_class_names(const base::Path& folder) {
  const base::Path file = pipeline_folder(folder) / kClassNamesName;
  if (!base::is_there(file)) return {};
  return base::to_texts(read_json(file), file.string());
}

std::optional<base::Json> read_normalization(const base::Path& folder) {
  const base::Path file = pipeline_folder(folder) / kNormalizationName;
  if (!base::is_there(file)) return std::nullopt;
  return read_json(file, kMaxNormalizationBytes);
}

}  // namespace ddpm::interop
