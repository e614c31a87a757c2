// The text of a model card.
#pragma once

#include <string>

#include "interop/written_model.h"

namespace ddpm::interop {

/// The text of README.md: metadata in YAML between lines of "---", then Markdown. The metadata is what Hugging Face's
/// hub documents (hub/model-cards) and huggingface_hub's ModelCard reads.
std::string model_card_text(const WrittenModel& model);
/// The text of README.md beside adapters, in the folder that PEFT loads.
std::string adapter_card_text(const WrittenAdapter& adapter);

}  // namespace ddpm::interop
