#include <algorithm>

#include "base/error.h"
#include "diffusion/config.h"
#include "interop/diffusers_writer.h"
#include "nn/config.h"

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

/// As PyTorch spells it.
std::string type_name(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kHalf ? "float16" : "float32";
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

/// edm's network is shown scaled images, which DDPMPipeline does not know of.
constexpr std::string_view kScaledUse = R"(```python
import torch
from diffusers import SCHEDULER, UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
scheduler = SCHEDULER.from_pretrained("PATH OF THIS FOLDER", subfolder="scheduler")
scheduler.set_timesteps(50)
shape = (1, unet.config.in_channels, unet.config.sample_size, unet.config.sample_size)
images = torch.randn(shape) * scheduler.init_noise_sigma
for t in scheduler.timesteps:
    with torch.no_grad():
        answer = unet(scheduler.scale_model_input(images, t), t).sample
    images = scheduler.step(answer, t, images).prev_sample
```
)";

constexpr std::string_view kConditionalUse =
    R"(The model takes class labels, which `DDPMPipeline` does not pass on: load its parts.

```python
from diffusers import SCHEDULER, UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
scheduler = SCHEDULER.from_pretrained("PATH OF THIS FOLDER", subfolder="scheduler")
prediction = unet(noisy_images, timesteps, class_labels=labels).sample
```
)";

constexpr std::string_view kFieldsUse =
    R"(The model is given more than noisy images: the fields that `normalization.json` lists, normalised as it says, and
positions where it says so. They stand beside the noisy images in this order.

```python
import torch
from diffusers import SCHEDULER, UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
scheduler = SCHEDULER.from_pretrained("PATH OF THIS FOLDER", subfolder="scheduler")
prediction = unet(torch.cat([noisy_images, condition, static, positions], 1), timesteps).sample
```
)";

constexpr std::string_view kMeanUse =
    R"(The model answers at once with the mean image of what it is given: the fields that `normalization.json` lists,
normalised as it says, and positions where it says so. Zeros stand where a diffusion model sees a noisy image.

```python
import torch
from diffusers import UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
zeros = torch.zeros(len(condition), unet.config.out_channels, *condition.shape[2:])
mean = unet(torch.cat([zeros, condition, static, positions], 1), 0).sample
```
)";

constexpr std::string_view kOwnUse =
    R"(The model has what diffusers has no model for, periodic axes, volumes or numbers that are given with
each image:
`field_unet.py` computes it with diffusers' `UNet2DModel`. Fields that `normalization.json` lists stand beside the noisy
images.

```python
from field_unet import FieldUNet2D

unet = FieldUNet2D.from_folder("PATH OF THIS FOLDER")
prediction = unet(noisy_images, timesteps, PARAMETERS)
```
)";

constexpr std::string_view kResidualUse =
    R"(
The model has learned what the answers of `mean_model/` leave of the images: add those to what it draws. diffusers
refuses this folder as a pipeline, since its samples alone are not images.
)";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
    text.replace(at, from.size(), to);
  return text;
}

std::string use_of(const WrittenModel& model) {
  const nn::UNet2DConfig& unet = model.unet;
  const diffusion::Formulation formulation = model.scheduler.formulation;
  std::string_view use = formulation == diffusion::Formulation::edm ? kScaledUse : kUnconditionalUse;
  if (nn::is_class_conditional(unet)) use = kConditionalUse;
  if (unet.in_channels != unet.out_channels) use = kFieldsUse;
  if (formulation == diffusion::Formulation::regression) use = kMeanUse;
  if (!nn::fits_diffusers(unet)) use = kOwnUse;
  std::string text = replaced(std::string(use), "SCHEDULER", model.scheduler.class_name);
  return replaced(std::move(text), ", PARAMETERS", unet.num_parameters ? ", parameters" : "");
}

std::string_view kind_of(diffusion::Formulation formulation) {
  switch (formulation) {
    case diffusion::Formulation::ddpm:
      return "A denoising diffusion model of images (DDPM)";
    case diffusion::Formulation::edm:
      return "A denoising diffusion model of images (EDM)";
    case diffusion::Formulation::flow:
      return "A flow matching model of images";
    case diffusion::Formulation::regression:
      return "A regression, whose answer is the mean image of what it is given,";
  }
  throw base::InternalError("formulation {}", static_cast<int>(formulation));
}

}  // namespace

std::string model_card_text(const WrittenModel& model) {
  const ModelCard& card = model.card;
  const diffusion::Formulation formulation = model.scheduler.formulation;
  std::string text(kHub);
  text += fmt::format("# {}\n\n{}, trained with ddpm{}{}.\n\n", one_line(card.title.empty() ? "DDPM" : card.title),
                      kind_of(formulation), card.program_version.empty() ? "" : " ", card.program_version);
  text += "| | |\n|---|---|\n";
  text += row("training set", card.dataset) + row("images in it", card.dataset_images);
  text += row("training sets before", card.earlier_datasets);
  text += row("classes", classes_text(card.class_names));
  text += row("optimizer steps", card.steps) + row("images seen", card.images_seen);
  text += row("weights", card.weights.empty() ? "" : card.weights + ", " + type_name(model.dtype));
  text += "\n## Use\n\n";
  text += use_of(model);
  if (model.mean != nullptr) text += kResidualUse;
  if (!model.unet.sample_size.empty()) {
    text += "\n`python export.py PROGRAM.pt2` makes a `torch.export` program of the model.\n";
  }
  text += fmt::format(
      "\nThe model's values relate to stored image values as `normalization.json` says:\n\n```json\n{}\n```\n",
      base::with_short_texts(model.normalization).dump(2));
  text +=
      "\n## Licence\n\nNone was stated for these weights when they were written. Add one before publishing them "
      "here and above that\nfits the training set.\n";
  if (!card.config_toml.empty()) text += fmt::format("\n## Configuration\n\n```toml\n{}\n```\n", card.config_toml);
  return text;
}

}  // namespace ddpm::interop
