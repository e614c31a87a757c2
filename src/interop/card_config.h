// The [card] section: what the author of a model says of it in its model card.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"

namespace ddpm::interop {

/// What is empty is left out of the card, but for the title, which is then the run's name.
struct CardConfig {
  std::string title = {};
  std::string license = {};
  std::vector<std::string> authors = {};
  std::vector<std::string> tags = {};
  std::string base_model = {};  ///< OWNER/NAME on a hub: the model that training started from
  std::string dataset_license = {};
};

/// Declares the keys of [card] with their documentation.
void describe(config::Section& section, CardConfig& c);

}  // namespace ddpm::interop
