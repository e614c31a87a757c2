#include "interop/card_config.h"

namespace ddpm::interop {

void describe(config::Section& section, CardConfig& c) {
  section.key("title", c.title, "Title of the model card, RUN/model/README.md; empty: the last part of run.directory")
      .key(
          "license", c.license,
          "Licence of the weights: an identifier that model hubs know, such as \"apache-2.0\" or \"cc-by-4.0\", or the "
          "name of another one; empty: \"unknown\"")
      .key("authors", c.authors, "Who made the model")
      .key("tags", c.tags, "Words under which a hub files the model, besides diffusers and ddpm")
      .key("base_model", c.base_model, "Name under which a hub knows the model that training started from: OWNER/NAME")
      .key("dataset_license", c.dataset_license, "Licence of the training set, for the reader of the card");
}

}  // namespace ddpm::interop
