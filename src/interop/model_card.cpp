#include <algorithm>

#include "interop/diffusers_writer.h"

namespace ddpm::interop {
namespace {

/// One line of text: no newline may end a heading or table row early.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '|'; }, ' ');
  return text;
}

std::string row(std::string_view name, const std::string& value) {
  return value.empty() ? "" : fmt::format("| {} | {} |\n", name, one_line(value));
}

std::string row(std::string_view name, int64_t value) { return value == 0 ? "" : row(name, std::to_string(value)); }

/// "10: airplane, automobile, ..."; the others are in class_names.json.
std::string classes_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20;
  if (names.empty()) return "";
  std::string text = fmt::format("{}: ", names.size());
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kShown ? ", ... (see `class_names.json`)" : "");
}

constexpr std::string_view kHub = R"(---
library_name: diffusers
pipeline_tag: unconditional-image-generation
license: unknown
tags:
- ddpm
- diffusers
---

)";

constexpr std::string_view kUnconditionalUse = R"(```python
from diffusers import DDPMPipeline

pipeline = DDPMPipeline.from_pretrained("PATH OF THIS FOLDER")
image = pipeline(batch_size=1).images[0]
```
)";

constexpr std::string_view kConditionalUse =
    R"(The model takes class labels, which `DDPMPipeline` does not pass on: load its parts.

```python
from diffusers import DDPMScheduler, UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
scheduler = DDPMScheduler.from_pretrained("PATH OF THIS FOLDER", subfolder="scheduler")
prediction = unet(noisy_images, timesteps, class_labels=labels).sample
```
)";

}  // namespace

std::string model_card_text(const ModelCard& card, bool class_conditional, const base::Json& normalization) {
  std::string text(kHub);
  text += fmt::format("# {}\n\nA denoising diffusion model of images (DDPM), trained with ddpm{}{}.\n\n",
                      one_line(card.title.empty() ? "DDPM" : card.title), card.program_version.empty() ? "" : " ",
                      card.program_version);
  text += "| | |\n|---|---|\n";
  text += row("training set", card.dataset) + row("images in it", card.dataset_images);
  text += row("classes", classes_text(card.class_names));
  text += row("optimizer steps", card.steps) + row("images seen", card.images_seen);
  text += row("weights", card.weights.empty() ? "" : card.weights + ", float32");
  text += "\n## Use\n\n";
  text += class_conditional ? kConditionalUse : kUnconditionalUse;
  text += fmt::format(
      "\nThe model's values relate to stored image values as `normalization.json` says:\n\n```json\n{}\n```\n",
      normalization.dump(2));
  text +=
      "\n## Licence\n\nNone was stated for these weights when they were written. Add one before publishing them "
      "here and above that\nfits the training set.\n";
  if (!card.config_toml.empty()) text += fmt::format("\n## Configuration\n\n```toml\n{}\n```\n", card.config_toml);
  return text;
}

}  // namespace ddpm::interop
