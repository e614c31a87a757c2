#include <string_view>

#include <fmt/format.h>

#include "diffusion/config.h"
#include "interop/card_parts.h"
#include "nn/config.h"

namespace ddpm::interop {
namespace {

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

}  // namespace

std::string card_use(const WrittenModel& model) {
  const nn::UNet2DConfig& unet = model.unet;
  const diffusion::Formulation formulation = model.scheduler.formulation;
  std::string_view use = formulation == diffusion::Formulation::edm ? kScaledUse : kUnconditionalUse;
  if (nn::is_class_conditional(unet)) use = kConditionalUse;
  if (unet.in_channels != unet.out_channels) use = kFieldsUse;
  if (formulation == diffusion::Formulation::regression) use = kMeanUse;
  if (!nn::fits_diffusers(unet)) use = kOwnUse;
  std::string text = replaced(std::string(use), "SCHEDULER", model.scheduler.class_name);
  text = replaced(std::move(text), ", PARAMETERS", unet.num_parameters ? ", parameters" : "");
  if (model.mean != nullptr) text += kResidualUse;
  if (!unet.sample_size.empty()) {
    text += "\n`python export.py PROGRAM.pt2` makes a `torch.export` program of the model.\n";
  }
  return text;
}

std::string card_limits(const WrittenModel& model) {
  const bool regression = model.scheduler.formulation == diffusion::Formulation::regression;
  const std::string set = model.card.dataset.empty() ? "the training set" : "`" + one_line(model.card.dataset) + "`";
  std::string text =
      fmt::format("- What is unlike {}: the model has seen nothing else, and repeats its biases.\n", set);
  text += regression
              ? "- Samples: the answer is a mean, which is smoother than any single image.\n"
              : "- Evidence: what it draws was never measured or photographed. Compare statistics of samples with "
                "held-out data\n  before conclusions rest on them.\n";
  text += "- Secrets: a model can give back images that it was trained on, so it is as private as these are.\n";
  text += "- Decisions about people, and whatever the licences of the weights and of the training set rule out.\n";
  return text;
}

}  // namespace ddpm::interop
