// A run's configuration as TensorBoard shows it.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"
#include "observe/event_messages.h"

namespace ddpm::train {

/// The keys that belong to the run's identity, and its length, as far as they are set; lists as their text.
std::vector<observe::HyperParameter> hyperparameters_of(const config::Schema& configuration);

/// config.toml as Markdown.
std::string configuration_markdown(const config::Schema& configuration);

}  // namespace ddpm::train
