#include "interop/unet_weights.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json_fields.h"
#include "interop/field_unet.h"
#include "interop/model_files.h"
#include "interop/peft_config.h"
#include "interop/weight_index.h"

namespace ddpm::interop {
namespace {

constexpr const char* kIndexName = "diffusion_pytorch_model.safetensors.index.json";
constexpr const char* kPickleName = "diffusion_pytorch_model";
/// What folders of weights in two bytes add to the names of their files.
constexpr auto kVariants = std::to_array<const char*>({"fp16", "bf16"});

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

/// PEFT's name of an adapter's weight without what it puts before all.
std::string name_without_peft(const std::string& name) {
  return name.starts_with(kPeftPrefix) ? name.substr(kPeftPrefix.size()) : name;
}

/// Throws with the command that converts them where the folder has weights that run code as they are read.
void expect_no_pickle(const base::Path& unet) {
  const auto refuse = [&](const std::string& variant) {
    const std::string option = variant.empty() ? "" : fmt::format(", variant='{}'", variant);
    throw base::OutputError(
        "{0}: the weights are a pickle, which can run any code; wanted: {1}, which python3 -c \"from diffusers import "
        "UNet2DModel as M; M.from_pretrained('{0}'{2}).save_pretrained('{0}')\" makes of a folder that you trust",
        unet.string(), kWeightsName, option);
  };
  const auto holds = [&](const std::string& name) { return base::is_there(unet / (kPickleName + name)); };
  if (holds(".bin") || holds(".bin.index.json")) refuse("");
  for (const std::string variant : kVariants) {
    if (holds(fmt::format(".{}.bin", variant)) || holds(fmt::format(".bin.index.{}.json", variant))) refuse(variant);
  }
}

/// The files that hold the weights: one, or those of an index. Throws with what would help when there are none.
std::vector<base::Path> weights_files(const base::Path& folder, WeightIndex& index) {
  const base::Path unet = unet_folder(folder);
  if (unet.empty()) throw base::OutputError("{}: has no {}", folder.string(), kWeightsName);
  const auto indexed = [&](const base::Path& index_file) -> std::vector<base::Path> {
    index = parse_weight_index(read_json(index_file), index_file.string());
    std::set<base::Path> files;
    for (const auto& [weight, file] : index) files.insert(unet / file);
    return {files.begin(), files.end()};
  };
  // An index counts before the file of all weights, as for diffusers.
  if (base::is_there(unet / kIndexName)) return indexed(unet / kIndexName);
  for (const char* name : {kWeightsName, kFieldWeights}) {
    if (base::is_there(unet / name)) return {unet / name};
  }
  for (const char* variant : kVariants) {
    for (const std::string& ending : {fmt::format("index.{}.json", variant), fmt::format("{}.index.json", variant)}) {
      const base::Path index_file = unet / fmt::format("{}.{}", kWeightsName, ending);
      if (base::is_there(index_file)) return indexed(index_file);
    }
    const base::Path file = unet / fmt::format("diffusion_pytorch_model.{}.safetensors", variant);
    if (base::is_there(file)) return {file};
  }
  expect_no_pickle(unet);
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
                              const base::Path& folder, std::string (*name_of)(const std::string&)) {
  WeightEntries entries;
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (const checkpoint::SafetensorsEntry& entry : files[f].header().entries) {
      const auto [at, first] = entries.emplace(name_of(entry.name), WeightPlace{f, &entry});
      if (!first) throw base::OutputError("{}: holds tensor '{}' twice", files[f].path().string(), at->first);
    }
  }
  check_against(entries, expected, files.size() == 1 ? files.front().path() : folder);
  for (const auto& [name, place] : entries) static_cast<void>(scalar_type(*place.entry, files[place.file].path()));
  return entries;
}

}  // namespace

base::Path unet_folder(const base::Path& path) {
  if (base::kind_of(path) == base::FileKind::regular) return base::parent_of(path);
  for (const base::Path& folder : {path, path / kUNetFolder}) {
    if (base::kind_of(folder / kUNetConfigName) == base::FileKind::regular) return folder;
  }
  return {};
}

UNetWeights::UNetWeights(const base::Path& folder, const ExpectedShapes& expected) {
  WeightIndex index;
  for (const base::Path& path : weights_files(folder, index)) {
    files_.emplace_back(path);
    if (!index.empty()) expect_indexed(files_.back(), index);
  }
  entries_ = checked_entries(files_, expected, folder, current_name);
}

UNetWeights UNetWeights::of_adapters(const base::Path& folder, const ExpectedShapes& expected) {
  UNetWeights adapters;
  if (!base::is_there(folder / kAdapterWeights) && base::is_there(folder / "adapter_model.bin")) {
    throw base::OutputError(
        "{}: the adapters are a pickle, which can run any code; wanted: {}, which PEFT's save_pretrained() writes",
        (folder / "adapter_model.bin").string(), kAdapterWeights);
  }
  adapters.files_.emplace_back(folder / kAdapterWeights);
  adapters.entries_ = checked_entries(adapters.files_, expected, folder, name_without_peft);
  return adapters;
}

at::ScalarType UNetWeights::dtype_of(const std::string& name) const {
  const WeightPlace& place = entries_.at(name);
  return scalar_type(*place.entry, files_[place.file].path());
}

at::Tensor UNetWeights::read(const std::string& name) const {
  const auto& [file, entry] = entries_.at(name);
  at::Tensor tensor = at::empty(entry->shape, scalar_type(*entry, files_[file].path()));
  files_[file].read(*entry, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
  if (!at::isfinite(tensor).all().item<bool>()) {
    throw base::OutputError("{}: {} holds values that are not finite; wanted: a model whose weights are numbers",
                            files_[file].path().string(), name);
  }
  return tensor;
}

}  // namespace ddpm::interop
