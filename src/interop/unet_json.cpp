#include "interop/unet_json.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "config/json_value.h"
#include "config/resolve.h"
#include "interop/field_unet.h"
#include "nn/validate.h"

namespace ddpm::interop {
namespace {

constexpr const char* kClassName = "UNet2DModel";
constexpr const char* kClassKey = "_class_name";

/// The keys as nn declares them for a configuration, pointing into `unet`.
config::Schema model_schema(nn::UNet2DConfig& unet) {
  config::Schema schema;
  config::Section section = schema.section("model", "", config::Identity::fixed);
  nn::describe(section, unet);
  return schema;
}

/// Where null stands for a value that has no name in TOML: see nn/config.h.
bool assign_null(const std::string& key, nn::UNet2DConfig& unet) {
  if (key == "attention_head_dim") {
    unet.attention_head_dim = 0;
  } else if (key == "mid_block_type") {
    unet.mid_block_type = "";
  } else {
    return false;
  }
  return true;
}

/// diffusers takes older names of block types with this prefix, and any name for the one middle block that it has.
base::Json renamed(const std::string& key, const base::Json& value) {
  constexpr std::string_view kOldPrefix = "UNetRes";
  if (key == "mid_block_type" && value.is_string()) return "UNetMidBlock2D";
  if (!key.ends_with("_block_types") || !value.is_array()) return value;
  base::Json names = value;
  for (base::Json& name : names) {
    if (name.is_string() && name.get_ref<const std::string&>().starts_with(kOldPrefix)) {
      name = name.get<std::string>().substr(kOldPrefix.size());
    }
  }
  return names;
}

/// Whether the key is one that diffusers' EMAModel adds to the config.json of the averages that it saves (unet_ema/).
bool is_of_averages(std::string_view key) {
  constexpr std::array<std::string_view, 7> kKeys = {
      "decay", "min_decay", "optimization_step", "update_after_step", "use_ema_warmup", "inv_gamma", "power"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

void check_class(const base::Json& json, const std::string& origin) {
  if (!json.is_object()) throw base::ConfigError("{}: not a JSON object", origin);
  const auto name = json.find(kClassKey);
  const bool fits = !json.contains("num_parameters") && !json.contains("padding") && !json.contains("dimensions");
  const char* wanted = fits ? kClassName : kFieldClass;
  if (name == json.end() || *name == wanted) return;
  throw base::ConfigError("{}: {} = {}; wanted: {}", origin, kClassKey, base::excerpt(*name), wanted);
}

}  // namespace

base::OrderedJson unet_to_json(const nn::UNet2DConfig& unet) {
  nn::UNet2DConfig copy = unet;
  const config::Schema schema = model_schema(copy);
  std::map<std::string, base::OrderedJson> sorted;
  for (const config::Entry& entry : schema.entries()) sorted[entry.key] = config::to_json(config::current(entry));
  base::OrderedJson& size = sorted.at("sample_size");
  if (unet.sample_size.empty()) size = nullptr;
  if (unet.sample_size.size() == 1) size = unet.sample_size.front();
  if (unet.attention_head_dim == 0) sorted.at("attention_head_dim") = nullptr;
  if (!unet.num_parameters) sorted.erase("num_parameters");
  if (!nn::is_periodic(unet)) sorted.erase("padding");
  if (unet.dimensions == 2) sorted.erase("dimensions");
  if (unet.mid_block_type.empty()) sorted.at("mid_block_type") = nullptr;

  base::OrderedJson json;
  json[kClassKey] = nn::fits_diffusers(unet) ? kClassName : kFieldClass;
  json["_diffusers_version"] = kDiffusersVersion;
  for (auto& [key, value] : sorted) json[key] = std::move(value);
  return json;
}

nn::UNet2DConfig unet_from_json(const base::Json& json, const std::string& origin) {
  check_class(json, origin);
  nn::UNet2DConfig unet;
  const config::Schema schema = model_schema(unet);
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with('_') || is_of_averages(key) || (value.is_null() && assign_null(key, unet))) continue;
    if (const config::Entry* entry = schema.find("model." + key)) {
      config::assign(*entry, config::from_json(renamed(key, value)), origin);
    } else if (!value.is_null()) {
      throw base::ConfigError("{}: unknown key '{}'; wanted: a key of {}", origin, key, kClassName);
    }
  }
  try {
    nn::validate(unet);
  } catch (const base::ConfigError& error) {
    throw base::ConfigError("{}: {}", origin, error.what());
  }
  return unet;
}

}  // namespace ddpm::interop
