#include "interop/unet_json.h"

#include <limits>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "config/schema.h"

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

/// Where a value of a key goes. Ranges and choices are left to nn::validate.
class Reader {
 public:
  Reader(const std::string& origin, const std::string& key) : origin_(origin), key_(key) {}

  void read(const base::Json& json, bool& value) const {
    require(json.is_boolean(), json, "true or false");
    value = json.get<bool>();
  }
  void read(const base::Json& json, int64_t& value) const {
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    require(json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= kLargest), json,
            "an integer");
    value = json.get<int64_t>();
  }
  void read(const base::Json& json, double& value) const {
    require(json.is_number(), json, "a number");
    value = json.get<double>();
  }
  void read(const base::Json& json, std::string& value) const {
    require(json.is_string(), json, "a string");
    value = json.get<std::string>();
  }
  template <typename T>
  void read(const base::Json& json, std::optional<T>& value) const {
    if (json.is_null()) {
      value.reset();
    } else {
      read(json, value.emplace());
    }
  }
  /// A list, or one value for a list of one; null for an empty one (sample_size of a model for any size).
  template <typename T>
  void read(const base::Json& json, std::vector<T>& values) const {
    values.clear();
    if (json.is_null()) return;
    if (!json.is_array()) return append(json, values);
    for (const base::Json& item : json) append(item, values);
  }
  void read(const base::Json& json, std::vector<config::WeightedPath>& /*values*/) const {
    require(false, json, "no such key in a model");
  }

 private:
  template <typename T>
  void append(const base::Json& json, std::vector<T>& values) const {
    T value{};
    read(json, value);
    values.push_back(std::move(value));
  }
  void require(bool good, const base::Json& seen, const char* wanted) const {
    if (!good) throw base::ConfigError("{}: model.{} = {}; wanted: {}", origin_, key_, base::excerpt(seen), wanted);
  }

  const std::string& origin_;
  const std::string& key_;
};

/// The JSON form of what an entry holds.
base::OrderedJson written(const config::Target& target) {
  return std::visit(
      [](const auto* value) -> base::OrderedJson {
        using Held = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<Held, std::vector<config::WeightedPath>>) {
          throw base::InternalError("a key of the model holds paths");
        } else if constexpr (requires { value->has_value(); }) {
          return value->has_value() ? base::OrderedJson(**value) : base::OrderedJson(nullptr);
        } else {
          return *value;
        }
      },
      target);
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

void check_class(const base::Json& json, const std::string& origin) {
  if (!json.is_object()) throw base::ConfigError("{}: not a JSON object", origin);
  const auto name = json.find(kClassKey);
  if (name == json.end() || *name == kClassName) return;
  throw base::ConfigError("{}: {} = {}; wanted: {}", origin, kClassKey, base::excerpt(*name), kClassName);
}

}  // namespace

base::OrderedJson unet_to_json(const nn::UNet2DConfig& unet) {
  nn::UNet2DConfig copy = unet;
  const config::Schema schema = model_schema(copy);
  std::map<std::string, base::OrderedJson> sorted;
  for (const config::Entry& entry : schema.entries()) sorted[entry.key] = written(entry.target);
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
      const Reader reader(origin, entry->key);
      std::visit([&, &seen = value](auto* target) { reader.read(seen, *target); }, entry->target);
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
