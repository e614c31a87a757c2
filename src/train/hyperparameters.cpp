#include "train/hyperparameters.h"

#include <variant>

#include "config/resolve.h"
#include "config/value.h"

namespace ddpm::train {
namespace {

observe::HyperParameter::Value value_of(const config::Value& value) {
  if (const bool* flag = std::get_if<bool>(&value.data)) return *flag;
  if (const int64_t* number = std::get_if<int64_t>(&value.data)) return static_cast<double>(*number);
  if (const double* number = std::get_if<double>(&value.data)) return *number;
  if (const std::string* text = std::get_if<std::string>(&value.data)) return *text;
  return config::to_text(value);
}

}  // namespace

std::vector<observe::HyperParameter> hyperparameters_of(const config::Schema& configuration) {
  std::vector<observe::HyperParameter> parameters;
  for (const config::Entry& entry : configuration.entries()) {
    if (entry.identity != config::Identity::fixed && entry.section != "train") continue;
    const config::Value value = config::current(entry);
    if (std::holds_alternative<std::nullptr_t>(value.data)) continue;
    parameters.push_back({entry.path(), value_of(value)});
  }
  return parameters;
}

std::string configuration_markdown(const config::Schema& configuration) {
  return "```toml\n" + config::to_toml(configuration, /*documented=*/false) + "```\n";
}

}  // namespace ddpm::train
