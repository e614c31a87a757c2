#include "interop/diffusers_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json_fields.h"
#include "interop/field_unet.h"
#include "interop/unet_json.h"
#include "interop/weight_index.h"

namespace ddpm::interop {
namespace {

constexpr const char* kConfigName = "config.json";
constexpr const char* kSchedulerName = "scheduler_config.json";
constexpr const char* kWeightsName = "diffusion_pytorch_model.safetensors";
constexpr const char* kIndexName = "diffusion_pytorch_model.safetensors.index.json";
constexpr uint64_t kMaxJsonBytes = uint64_t{16} << 20U;
constexpr uint64_t kMaxNormalizationBytes = uint64_t{256} << 20U;  // as of dataset.json, whose transforms it has

bool is_file(const base::Path& path) { return base::kind_of(path) == base::FileKind::regular; }

/// The folder with config.json: `path`, its unet/, or the one that the file `path` lies in; "" when there is none.
base::Path unet_folder(const base::Path& path) {
  if (is_file(path)) return base::parent_of(path);
  for (const base::Path& folder : {path, path / "unet"}) {
    if (is_file(folder / kConfigName)) return folder;
  }
  return {};
}

base::Json read_json(const base::Path& path, uint64_t most_bytes = kMaxJsonBytes) {
  const std::string text = base::posix_file_system()->read(path, most_bytes);
  return base::parse_json_file(text, path.string(), most_bytes);
}

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

/// What would help with a name such as "google/ddpm-cifar10-32", which other programs look up on a hub; "": it is
/// not of that kind.
std::string hub_hint(const base::Path& path) {
  const std::string name = path.string();
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

/// `config.json` of the file or folder; the only errors are OutputError (cannot be read) and ConfigError (its content).
nn::UNet2DConfig read_config(const base::Path& path) {
  const base::Path folder = unet_folder(path);
  if (folder.empty()) {
    throw base::OutputError("{}: wanted: a diffusers config.json, or a folder with config.json or unet/config.json{}",
                            path.string(), hub_hint(path));
  }
  const base::Path file = is_file(path) ? path : folder / kConfigName;
  return unet_from_json(read_json(file), file.string());
}

at::ScalarType scalar_type(const checkpoint::SafetensorsEntry& entry, const base::Path& path) {
  switch (entry.dtype) {
    case base::DType::f16:
      return at::kHalf;
    case base::DType::bf16:
      return at::kBFloat16;
    case base::DType::f32:
      return at::kFloat;
    case base::DType::f64:
      return at::kDouble;
    default:
      throw base::OutputError("{}: tensor '{}' is {}; wanted: a floating type", path.string(), entry.name,
                              base::safetensors_name(entry.dtype));
  }
}

/// Today's name of a weight: diffusers renamed the linear layers of attention in 0.17.
std::string current_name(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kRenamed = {
      {{".query.", ".to_q."}, {".key.", ".to_k."}, {".value.", ".to_v."}, {".proj_attn.", ".to_out.0."}}};
  if (name.find(".attentions.") == std::string::npos) return name;
  for (const auto& [old_part, new_part] : kRenamed) {
    const std::size_t at = name.find(old_part);
    if (at != std::string::npos) return std::string(name).replace(at, old_part.size(), new_part);
  }
  return name;
}

/// The files that hold the weights: one, or those of an index. Throws with what would help when there are none.
std::vector<base::Path> weights_files(const base::Path& folder, WeightIndex& index) {
  const base::Path unet = unet_folder(folder);
  if (unet.empty()) throw base::OutputError("{}: has no {}", folder.string(), kWeightsName);
  for (const char* name : {kWeightsName, kFieldWeights}) {
    if (base::is_there(unet / name)) return {unet / name};
  }
  const base::Path index_file = unet / kIndexName;
  if (base::is_there(index_file)) {
    index = parse_weight_index(read_json(index_file), index_file.string());
    std::set<base::Path> files;
    for (const auto& [weight, file] : index) files.insert(unet / file);
    return {files.begin(), files.end()};
  }
  for (const char* pickle : {"diffusion_pytorch_model.bin", "diffusion_pytorch_model.bin.index.json"}) {
    if (!base::is_there(unet / pickle)) continue;
    throw base::OutputError(
        "{}: the weights are a pickle, which can run any code; wanted: {}, which python3 -c \"from diffusers import "
        "UNet2DModel as M; M.from_pretrained('{}').save_pretrained('{}')\" makes of a folder that you trust",
        unet.string(), kWeightsName, unet.string(), unet.string());
  }
  for (const char* variant : {"fp16", "bf16"}) {
    const std::string name = fmt::format("diffusion_pytorch_model.{}.safetensors", variant);
    if (!base::is_there(unet / name)) continue;
    throw base::OutputError("{}: has no {}, but the variant {}; wanted: that file under the first name", unet.string(),
                            kWeightsName, name);
  }
  throw base::OutputError("{}: has no {}", unet.string(), kWeightsName);
}

/// "KIND: a, b, c and 17 more", or "" for none.
std::string summary(std::string_view kind, const std::vector<std::string>& items) {
  constexpr std::size_t kShown = 3;
  if (items.empty()) return {};
  const std::size_t shown = std::min(items.size(), kShown);
  const std::string rest = items.size() > shown ? fmt::format(" and {} more", items.size() - shown) : "";
  return fmt::format("; {}: {}{}", kind,
                     fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), ", "), rest);
}

void check_against(const WeightEntries& entries, const ExpectedShapes& expected, const base::Path& path) {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> misshapen;
  for (const auto& [name, shape] : expected) {
    const auto found = entries.find(name);
    if (found == entries.end()) {
      missing.push_back(name);
    } else if (found->second.entry->shape != shape) {
      misshapen.push_back(fmt::format("{} is [{}], wanted [{}]", name, fmt::join(found->second.entry->shape, ", "),
                                      fmt::join(shape, ", ")));
    }
  }
  for (const auto& [name, entry] : entries) {
    if (!expected.contains(name)) unexpected.push_back(name);
  }
  if (missing.empty() && unexpected.empty() && misshapen.empty()) return;
  throw base::OutputError("{}: does not fit the model{}{}{}", path.string(), summary("missing", missing),
                          summary("unexpected", unexpected), summary("other shapes", misshapen));
}

/// Every file holds the weights that the index says, and no others.
void expect_indexed(const checkpoint::SafetensorsFile& file, const WeightIndex& index) {
  const std::string name = file.path().filename().string();
  for (const checkpoint::SafetensorsEntry& entry : file.header().entries) {
    const auto at = index.find(entry.name);
    if (at != index.end() && at->second == name) continue;
    throw base::OutputError("{}: holds weight '{}', which {} {}", file.path().string(), entry.name, kIndexName,
                            at == index.end() ? "does not list" : "says lies in " + at->second);
  }
  for (const auto& [weight, place] : index) {
    if (place != name || file.header().find(weight) != nullptr) continue;
    throw base::OutputError("{}: has no weight '{}', which {} says lies in it", file.path().string(), weight,
                            kIndexName);
  }
}

/// The entries by today's names, all of a floating type and as the model expects them.
WeightEntries checked_entries(const std::vector<checkpoint::SafetensorsFile>& files, const ExpectedShapes& expected,
                              const base::Path& folder) {
  WeightEntries entries;
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (const checkpoint::SafetensorsEntry& entry : files[f].header().entries) {
      const auto [at, first] = entries.emplace(current_name(entry.name), WeightPlace{f, &entry});
      if (!first) throw base::OutputError("{}: holds tensor '{}' twice", files[f].path().string(), at->first);
    }
  }
  check_against(entries, expected, files.size() == 1 ? files.front().path() : folder);
  for (const auto& [name, place] : entries) static_cast<void>(scalar_type(*place.entry, files[place.file].path()));
  return entries;
}

}  // namespace

base::Path pipeline_folder(const base::Path& path) {
  const base::Path unet = unet_folder(path);
  return unet.filename() == "unet" || unet.filename() == "unet_ema" ? unet.parent_path() : unet;
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

nn::UNet2DConfig read_model_config(const base::Path& folder) {
  try {
    return read_config(folder);
  } catch (const base::ConfigError& error) {
    throw base::OutputError("{}", error.what());
  }
}

UNetWeights::UNetWeights(const base::Path& folder, const ExpectedShapes& expected) {
  WeightIndex index;
  for (const base::Path& path : weights_files(folder, index)) {
    files_.emplace_back(path);
    if (!index.empty()) expect_indexed(files_.back(), index);
  }
  entries_ = checked_entries(files_, expected, folder);
}

at::ScalarType UNetWeights::dtype_of(const std::string& name) const {
  const WeightPlace& place = entries_.at(name);
  return scalar_type(*place.entry, files_[place.file].path());
}

at::Tensor UNetWeights::read(const std::string& name) const {
  const auto& [file, entry] = entries_.at(name);
  at::Tensor tensor = at::empty(entry->shape, scalar_type(*entry, files_[file].path()));
  files_[file].read(*entry, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
  return tensor;
}

std::optional<SchedulerFile> read_scheduler(const base::Path& folder) {
  // Pipelines of 2022, such as google/ddpm-cifar10-32, have all files in one folder.
  base::Path file = pipeline_folder(folder) / "scheduler" / kSchedulerName;
  if (!base::is_there(file)) file = pipeline_folder(folder) / kSchedulerName;
  if (!base::is_there(file)) return std::nullopt;
  std::string text = base::posix_file_system()->read(file, kMaxJsonBytes);
  base::Json json = base::parse_json_file(with_named_numbers_as_texts(text), file.string(), kMaxJsonBytes);
  SchedulerFile scheduler{.path = file, .text = std::move(text), .json = std::move(json)};
  if (!scheduler.json.is_object()) throw base::OutputError("{}: not a JSON object", file.string());
  const auto name = scheduler.json.find("_class_name");
  if (name != scheduler.json.end() && name->is_string()) scheduler.class_name = name->get<std::string>();
  return scheduler;
}

std::vector<std::string> read_class_names(const base::Path& folder) {
  const base::Path file = pipeline_folder(folder) / "class_names.json";
  if (!base::is_there(file)) return {};
  return base::to_texts(read_json(file), file.string());
}

std::optional<base::Json> read_normalization(const base::Path& folder) {
  const base::Path file = pipeline_folder(folder) / "normalization.json";
  if (!base::is_there(file)) return std::nullopt;
  return read_json(file, kMaxNormalizationBytes);
}

}  // namespace ddpm::interop
