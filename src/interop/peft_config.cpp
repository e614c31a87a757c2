#include "interop/peft_config.h"

#include <algorithm>
#include <array>
#include <cfloat>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json_fields.h"
#include "interop/model_files.h"

namespace ddpm::interop {
namespace {

constexpr int64_t kMaxRank = 4096;

/// Keys that say where adapters come from, or how they are trained, loaded or begun, but not what they compute.
constexpr std::array<std::string_view, 15> kOfNoEffect = {
    "auto_mapping", "base_model_name_or_path", "eva_config", "inference_mode", "init_lora_weights", "lora_alpha",
    "lora_dropout", "megatron_core",           "peft_type",  "peft_version",   "qalora_group_size", "r",
    "revision",     "target_modules",          "task_type"};

/// Nothing, no, none, or an empty list: a key that asks for nothing.
bool is_off(const base::Json& value) {
  if (value.is_null() || value == base::Json(false) || value == base::Json("none")) return true;
  return value.is_structured() && value.empty();
}

/// Beginnings that change the weights beside the adapters, which then are no longer those of the model folder.
bool changes_base(const base::Json& init) {
  if (!init.is_string()) return false;
  const auto& name = init.get_ref<const std::string&>();
  return name != "gaussian" && name != "orthogonal" && name != "eva";
}

void expect_plain(const base::Json& json, const std::string& origin) {
  for (const auto& [key, value] : json.items()) {
    const bool known = std::ranges::find(kOfNoEffect, std::string_view(key)) != kOfNoEffect.end();
    if (known ? !(key == "init_lora_weights" && changes_base(value)) : is_off(value)) continue;
    throw base::OutputError("{}: '{}' is {}: such adapters compute something else; wanted: plain LoRA, without it",
                            origin, key, base::excerpt(value));
  }
}

}  // namespace

bool is_peft_folder(const base::Path& path) { return base::kind_of(path / kAdapterConfig) == base::FileKind::regular; }

nn::LoraConfig parse_peft_config(const base::Json& json, const std::string& origin) {
  const base::JsonFields fields(json, origin, {"peft_type", "r", "target_modules"}, base::JsonFields::Others::ignored);
  if (fields.text("peft_type") != "LORA") {
    throw base::OutputError("{}: 'peft_type' is {}; wanted: \"LORA\"", origin, base::excerpt(json["peft_type"]));
  }
  expect_plain(json, origin);
  nn::LoraConfig lora;
  lora.rank = fields.integer("r", 1, kMaxRank);
  lora.alpha = fields.has("lora_alpha") ? fields.number("lora_alpha", FLT_MIN, FLT_MAX) : 8.0;  // PEFT's default
  if (!json["target_modules"].is_array() || json["target_modules"].empty()) {
    throw base::OutputError("{}: 'target_modules' is {}; wanted: a list of names of layers, or of their ends", origin,
                            base::excerpt(json["target_modules"]));
  }
  lora.targets = base::to_texts(json["target_modules"], origin + ": 'target_modules'");
  return lora;
}

nn::LoraConfig read_peft_config(const base::Path& folder) {
  return parse_peft_config(read_json(folder / kAdapterConfig), (folder / kAdapterConfig).string());
}

double read_peft_dropout(const base::Path& folder) {
  const base::Json json = read_json(folder / kAdapterConfig);
  const auto found = json.find("lora_dropout");
  if (found == json.end() || found->is_null()) return 0.0;
  if (!found->is_number()) {
    throw base::OutputError("{}: 'lora_dropout' is {}; wanted: a number", (folder / kAdapterConfig).string(),
                            base::excerpt(*found));
  }
  return found->get<double>();
}

}  // namespace ddpm::interop
