#include "interop/unet_json.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "base/error.h"
#include "config/resolve.h"
#include "config/value.h"

namespace ddpm::interop {
namespace {

constexpr const char* kClassName = "UNet2DModel";
constexpr const char* kClassKey = "_class_name";

config::Schema model_schema(nn::UNet2DConfig& unet) {
  config::Schema schema;
  config::Section section = schema.section("model", "", config::Identity::fixed);
  nn::describe(section, unet);
  return schema;
}

config::Value to_value(const base::Json& json) {
  config::Value value;
  if (json.is_boolean()) {
    value.data = json.get<bool>();
  } else if (json.is_number_integer() && json <= std::numeric_limits<int64_t>::max()) {
    value.data = json.get<int64_t>();
  } else if (json.is_number()) {
    value.data = json.get<double>();
  } else if (json.is_string()) {
    value.data = json.get<std::string>();
  } else if (json.is_array()) {
    config::Array array;
    for (const base::Json& item : json) array.push_back(to_value(item));
    value.data = std::move(array);
  } else if (json.is_object()) {
    value.data = config::Table{};
  }
  return value;
}

base::OrderedJson to_json(const config::Value& value) {
  return std::visit(
      [](const auto& held) -> base::OrderedJson {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, config::Array>) {
          base::OrderedJson array = base::OrderedJson::array();
          for (const config::Value& item : held) array.push_back(to_json(item));
          return array;
        } else if constexpr (std::is_same_v<Held, config::Table>) {
          throw base::InternalError("a key of the model holds a table");
        } else {
          return held;
        }
      },
      value.data);
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

[[noreturn]] void refuse_unknown(const std::string& key, const config::Schema& schema, const std::string& origin) {
  std::vector<std::string> known;
  for (const config::Entry& entry : schema.entries()) known.push_back(entry.key);
  const std::string near = config::nearest(key, known);
  throw base::ConfigError("{}: unknown key '{}'; wanted: a key of {}{}", origin, key, kClassName,
                          near.empty() ? "" : fmt::format(", perhaps '{}'", near));
}

void check_class(const base::Json& json, const std::string& origin) {
  if (!json.is_object()) throw base::ConfigError("{}: not a JSON object", origin);
  const auto name = json.find(kClassKey);
  if (name == json.end() || *name == kClassName) return;
  throw base::ConfigError("{}: {} = {}; wanted: {}", origin, kClassKey, name->dump(), kClassName);
}

}  // namespace

base::OrderedJson unet_to_json(const nn::UNet2DConfig& unet) {
  nn::UNet2DConfig copy = unet;
  const config::Schema schema = model_schema(copy);
  std::map<std::string, base::OrderedJson> sorted;
  for (const config::Entry& entry : schema.entries()) sorted[entry.key] = to_json(config::current(entry));
  base::OrderedJson& size = sorted.at("sample_size");
  if (unet.sample_size.empty()) size = nullptr;
  if (unet.sample_size.size() == 1) size = unet.sample_size.front();
  if (unet.attention_head_dim == 0) sorted.at("attention_head_dim") = nullptr;
  if (unet.mid_block_type.empty()) sorted.at("mid_block_type") = nullptr;

  base::OrderedJson json;
  json[kClassKey] = kClassName;
  json["_diffusers_version"] = kDiffusersVersion;
  for (auto& [key, value] : sorted) json[key] = std::move(value);
  return json;
}

nn::UNet2DConfig unet_from_json(const base::Json& json, const std::string& origin) {
  check_class(json, origin);
  nn::UNet2DConfig unet;
  const config::Schema schema = model_schema(unet);
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with('_') || (value.is_null() && assign_null(key, unet))) continue;
    if (const config::Entry* entry = schema.find("model." + key)) {
      config::assign(*entry, to_value(value), origin);
    } else if (!value.is_null()) {
      refuse_unknown(key, schema, origin);
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
