#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "diffusion/config.h"
#include "diffusion/scheduler_json.h"
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

/// With a scheduler that scales, as edm's do, the network is shown scaled images, which DDPMPipeline does not know of.
constexpr std::string_view kScaledUse = R"(```python
import torch
from diffusers import SCHEDULER, UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
scheduler = SCHEDULER.from_pretrained("PATH OF THIS FOLDER", subfolder="scheduler")
scheduler.set_timesteps(50)
images = torch.randn(1, unet.config.in_channels, HEIGHT, WIDTH) * scheduler.init_noise_sigma
for t in scheduler.timesteps:
    with torch.no_grad():
        answer = unet(scheduler.scale_model_input(images, t), t).sample
    images = scheduler.step(answer, t, images).prev_sample
```
)";

/// One answer of a model that takes more than noisy images and timesteps.
constexpr std::string_view kOneAnswer = R"(
```python
import torch
from diffusers import SCHEDULER, UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
scheduler = SCHEDULER.from_pretrained("PATH OF THIS FOLDER", subfolder="scheduler")
prediction = unet(IMAGES, TIMESTEPS LABELS).sample
```
)";

constexpr std::string_view kMeanUse =
    R"(The model answers at once with the mean image of what it is given. Zeros stand where a diffusion model sees a noisy
image.

```python
import torch
from diffusers import UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
zeros = torch.zeros(len(condition), unet.config.out_channels, *condition.shape[2:])
mean = unet(IMAGES, 0 LABELS).sample
```
)";

constexpr std::string_view kOwnUse =
    R"(The model has what diffusers has no model for, periodic axes, volumes or numbers that are given with
each image:
`field_unet.py` computes it with diffusers' `UNet2DModel`.

```python
import torch
from diffusers import SCHEDULER
from field_unet import FieldUNet2D

unet = FieldUNet2D.from_folder("PATH OF THIS FOLDER")
scheduler = SCHEDULER.from_pretrained("PATH OF THIS FOLDER", subfolder="scheduler")
prediction = unet(IMAGES, TIMESTEPS PARAMETERS LABELS)
```
)";

constexpr std::string_view kClasses =
    "The model takes class labels, which `DDPMPipeline` does not pass on: load its parts.\n";
constexpr std::string_view kBeside =
    R"(The model is given more than noisy images: the fields that `normalization.json` lists, normalised as it says, and
positions where it says so. They stand beside the noisy images in this order.
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

/// The fields beside the noisy images, in the order in which the model takes them.
std::vector<std::string> names_beside(const base::Json& normalization) {
  std::vector<std::string> names;
  if (!normalization.is_object()) return names;
  const base::Json fields = normalization.value("fields", base::Json::array());
  for (const char* role : {"condition", "static"}) {
    const auto has_role = [&](const base::Json& field) { return field.value("role", "") == role; };
    if (std::ranges::any_of(fields, has_role)) names.emplace_back(role);
  }
  if (normalization.value("positions", false)) names.emplace_back("positions");
  return names;
}

/// What is passed in the place of `first`, the noisy images.
std::string images_argument(std::string first, const std::vector<std::string>& beside) {
  return beside.empty() ? first : fmt::format("torch.cat([{}, {}], 1)", first, fmt::join(beside, ", "));
}

}  // namespace

std::string card_use(const WrittenModel& model) {
  using diffusion::Formulation;
  const nn::UNet2DConfig& unet = model.unet;
  const Formulation formulation = model.scheduler.formulation;
  const bool scaled = diffusion::scales_input(model.scheduler.class_name);
  const bool classes = nn::is_class_conditional(unet);
  const std::vector<std::string> beside = names_beside(model.normalization);
  std::string text;
  std::string noisy = scaled ? "scheduler.scale_model_input(noisy_images, t)" : "noisy_images";
  if (!nn::fits_diffusers(unet)) {
    text = kOwnUse;
  } else if (formulation == Formulation::regression) {
    text = kMeanUse;
    noisy = "zeros";
  } else if (classes || !beside.empty()) {
    text = std::string(classes ? kClasses : "") + std::string(kOneAnswer);
  } else {
    text = scaled ? kScaledUse : kUnconditionalUse;
  }
  if (!beside.empty()) text = std::string(kBeside) + text;
  text = replaced(std::move(text), "SCHEDULER", model.scheduler.class_name);
  text = replaced(std::move(text), "IMAGES", images_argument(noisy, beside));
  text = replaced(std::move(text), "TIMESTEPS", scaled ? "t" : "timesteps");
  text = replaced(std::move(text), " PARAMETERS", unet.num_parameters ? ", parameters" : "");
  text = replaced(std::move(text), " LABELS", classes ? ", class_labels=labels" : "");
  if (!unet.sample_size.empty()) {
    text = replaced(std::move(text), "HEIGHT", std::to_string(unet.sample_size.front()));
    text = replaced(std::move(text), "WIDTH", std::to_string(unet.sample_size.back()));
  }
  if (model.mean != nullptr) text += kResidualUse;
  if (!unet.sample_size.empty()) {
    text += "\n`python export.py PROGRAM.pt2` makes a `torch.export` program of the model.\n";
  }
  return text;
}

std::string card_limits(const ModelCard& card, diffusion::Formulation formulation) {
  const bool regression = formulation == diffusion::Formulation::regression;
  const std::string set = card.dataset.empty() ? "the training set" : "`" + one_line(card.dataset) + "`";
  std::string text = fmt::format(
      "- What is unlike {}: the training here has shown it nothing else, and it repeats its biases.\n", set);
  text += regression
              ? "- Samples: the answer is a mean, which is smoother than any single image.\n"
              : "- Evidence: what it draws was never measured or photographed. Compare statistics of samples with "
                "held-out data\n  before conclusions rest on them.\n";
  text += "- Secrets: a model can give back images that it was trained on, so it is as private as these are.\n";
  text += "- Decisions about people, and whatever the licences of the weights and of the training set rule out.\n";
  return text;
}

}  // namespace ddpm::interop
