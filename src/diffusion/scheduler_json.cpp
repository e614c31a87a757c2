#include "diffusion/scheduler_json.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "base/error.h"
#include "config/json_value.h"
#include "config/resolve.h"
#include "diffusion/samplers.h"

namespace ddpm::diffusion {
namespace {

/// The keys that a file may hold: types, ranges and choices are those of the [diffusion] section.
config::Schema file_schema(SchedulerConfig& c) {
  config::Schema schema;
  config::Section section = schema.section("scheduler", "", config::Identity::fixed);
  describe(section, c);
  section.key("set_alpha_to_one", c.set_alpha_to_one, "ddim's last step leads to a clean image, not to timestep 0.");
  return schema;
}

}  // namespace

SchedulerConfig scheduler_defaults(std::string_view sampler) {
  const auto& names = sampler_names();
  if (std::find(names.begin(), names.end(), sampler) == names.end()) {
    throw base::ConfigError("\"{}\" is not a sampler; known are {}", sampler, fmt::join(names, ", "));
  }
  return {};  // DDPMScheduler and DDIMScheduler agree on every key that they share
}

SchedulerConfig read_scheduler(const base::Json& json, std::string_view sampler, const std::string& origin) {
  if (!json.is_object()) throw base::OutputError("{}: a JSON object is wanted", origin);
  SchedulerConfig c = scheduler_defaults(sampler);
  const config::Schema schema = file_schema(c);
  try {
    for (const config::Entry& entry : schema.entries()) {
      const auto found = json.find(entry.key);
      if (found != json.end() && !found->is_null()) config::assign(entry, config::from_json(*found), origin);
    }
    validate(c, origin + ": ");
  } catch (const base::ConfigError& error) {
    // The fault lies in a model's file, not in what the user configured.
    throw base::OutputError("{}", error.what());
  }
  return c;
}

base::OrderedJson write_scheduler(const SchedulerConfig& c) {
  SchedulerConfig copy = c;
  copy.clip_sample = c.clips();
  config::Schema schema;
  config::Section section = schema.section("scheduler", "", config::Identity::fixed);
  describe(section, copy);
  std::map<std::string, base::OrderedJson> sorted;
  for (const config::Entry& entry : schema.entries()) sorted[entry.key] = config::to_json(config::current(entry));
  if (c.trained_betas.empty()) sorted["trained_betas"] = nullptr;

  base::OrderedJson json;
  json["_class_name"] = "DDPMScheduler";
  for (auto& [key, value] : sorted) json[key] = std::move(value);
  return json;
}

}  // namespace ddpm::diffusion
