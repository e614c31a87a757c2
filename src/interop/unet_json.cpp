#include "interop/unet_json.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/lower_case.h"
#include "base/named.h"
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

/// Block types under today's names: diffusers takes older ones with this prefix.
base::Json block_types(base::Json names) {
  constexpr std::string_view kOldPrefix = "UNetRes";
  if (!names.is_array()) return names;
  for (base::Json& name : names) {
    if (name.is_string() && name.get_ref<const std::string&>().starts_with(kOldPrefix)) {
      name = name.get<std::string>().substr(kOldPrefix.size());
    }
  }
  return names;
}

/// What a value says under our names. diffusers builds the same model from several: null has its own meaning (see
/// nn/config.h), any name is that of the one middle block, and a class embedding that it does not know is none.
base::Json as_named_here(const std::string& key, const base::Json& value) {
  if (key == "down_block_types" || key == "up_block_types") return block_types(value);
  if (value.is_null()) {
    if (key == "attention_head_dim" || key == "norm_num_groups") return 0;
    if (key == "mid_block_type") return "";
    if (key == "downsample_type" || key == "upsample_type") return "conv";
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (key == "mid_block_type") return "UNetMidBlock2D";
    if (key == "act_fn") return base::lower_case(text);
    if (key == "class_embed_type" && !base::find_named<nn::ClassEmbedding>(text)) return nullptr;
  } else if (key == "time_embedding_dim" && value == 0) {
    return nullptr;
  }
  return value;
}

/// Whether the key is one that diffusers' EMAModel adds to the config.json of the averages that it saves (unet_ema/).
bool is_of_averages(std::string_view key) {
  constexpr std::array<std::string_view, 7> kKeys = {
      "decay", "min_decay", "optimization_step", "update_after_step", "use_ema_warmup", "inv_gamma", "power"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

/// Only sinusoids have a shift of their frequencies.
bool reads_freq_shift(const base::Json& json) {
  const auto type = json.find("time_embedding_type");
  return type == json.end() || *type == std::string(base::name_of(nn::TimeEmbedding::positional));
}

void check_class(const base::Json& json, const std::string& origin) {
  if (!json.is_object()) throw base::ConfigError("{}: not a JSON object", origin);
  const auto name = json.find(kClassKey);
  const bool fits = !json.contains("num_parameters") && !json.contains("padding") && !json.contains("dimensions");
  const char* wanted = fits ? kClassName : kFieldClass;
  if (name == json.end() || *name == wanted) return;
  throw base::ConfigError("{}: {} = {}; wanted: {}", origin, kClassKey, base::excerpt(*name), wanted);
}

/// The keys that count and whose values differ: "KEY = NOW instead of BEFORE".
std::vector<std::string> differences(const nn::UNet2DConfig& base, const nn::UNet2DConfig& model,
                                     const std::function<bool(const std::string&)>& counts) {
  const base::OrderedJson before = unet_to_json(base);
  const base::OrderedJson now = unet_to_json(model);
  const auto value = [](const base::OrderedJson& json, const std::string& key) {
    return json.contains(key) && !json.at(key).is_null() ? json.at(key).dump() : "none";
  };
  std::set<std::string> keys;
  for (const base::OrderedJson* json : {&before, &now}) {
    for (const auto& [key, unused] : json->items()) keys.insert(key);
  }
  std::vector<std::string> changed;
  for (const std::string& key : keys) {
    if (!counts(key) || value(before, key) == value(now, key)) continue;
    changed.push_back(fmt::format("{} = {} instead of {}", key, value(now, key), value(before, key)));
  }
  return changed;
}

/// Whether the size is one that the model takes; its other keys are valid. UNet2DModel does not read its own: a size
/// that does not fit says as little as none.
bool has_fitting_size(const nn::UNet2DConfig& unet) {
  try {
    nn::validate(unet);
  } catch (const base::ConfigError&) {
    return false;
  }
  return true;
}

/// Whether the key says what a model takes beside the noisy image.
bool is_of_inputs(const std::string& key) {
  constexpr std::array<std::string_view, 4> kKeys = {"in_channels", "class_embed_type", "num_class_embeds",
                                                     "num_parameters"};
  return std::ranges::find(kKeys, key) != kKeys.end();
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
  if (unet.norm_num_groups == 0) sorted.at("norm_num_groups") = nullptr;
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

std::vector<std::string> changed_model_keys(const nn::UNet2DConfig& base, const nn::UNet2DConfig& model) {
  static const std::set<std::string_view> kOthers = {kClassKey, "sample_size",        "dropout", "time_embedding_dim",
                                                     "padding", "num_train_timesteps"};
  return differences(base, model, [](const std::string& key) { return !kOthers.contains(key) && !is_of_inputs(key); });
}

std::vector<std::string> changed_inputs(const nn::UNet2DConfig& base, const nn::UNet2DConfig& model) {
  return differences(base, model, is_of_inputs);
}

nn::UNet2DConfig unet_from_json(const base::Json& json, const std::string& origin) {
  check_class(json, origin);
  nn::UNet2DConfig unet;
  const config::Schema schema = model_schema(unet);
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with('_') || is_of_averages(key)) continue;
    if (key == "freq_shift" && value.is_null() && !reads_freq_shift(json)) continue;
    if ((key == "attention_head_dim" || key == "norm_num_groups") && value == 0) {  // ours for null; diffusers divides
      throw base::ConfigError("{}: {} = 0; wanted: a number from 1, or null", origin, key);
    }
    if (const config::Entry* entry = schema.find("model." + key)) {
      config::assign(*entry, config::from_json(as_named_here(key, value), *entry), origin);
    } else if (!value.is_null()) {
      throw base::ConfigError(
          "{}: unknown key '{}'; wanted: a key of {}, since others may change what the model computes; remove it where "
          "it does not",
          origin, key, kClassName);
    }
  }
  // diffusers makes a table of classes only where the type of their embedding is null.
  if (const auto type = json.find("class_embed_type"); type != json.end() && type->is_string()) {
    unet.num_class_embeds.reset();
  }
  const std::vector<int64_t> size = std::exchange(unet.sample_size, {});
  try {
    nn::validate(unet);
  } catch (const base::ConfigError& error) {
    throw base::ConfigError("{}: {}", origin, error.what());
  }
  unet.sample_size = size;
  if (!has_fitting_size(unet)) unet.sample_size.clear();
  return unet;
}

}  // namespace ddpm::interop
