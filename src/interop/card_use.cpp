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
image = pipeline(batch_size=1ALL_OF_THEM).images[0]
```
)";

/// What DDPMPipeline does not do: with a scheduler that scales, as edm's do, the network is shown scaled images; others
/// take no generator; a size may not be known; and values beyond [-1, 1] are not cut off.
constexpr std::string_view kLoopUse = R"(```python
MORE_IMPORTSimport torch
from diffusers import SCHEDULER, UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
scheduler = SCHEDULER.from_pretrained("PATH OF THIS FOLDER", subfolder="scheduler")
scheduler.set_timesteps(SOME_OF_THEM)
READ_MASKimages = torch.randn(1, unet.config.in_channels, HEIGHT, WIDTH)FROM_NOISE
for t in scheduler.timesteps:
    with torch.no_grad():
        answer = unet(SHOWN, t).sample
HOLD_MASK    images = scheduler.step(answer, t, images).prev_sample
```
)";

constexpr std::string_view kValues =
    R"(The model draws fields of float32, which `DDPMPipeline` would cut off as pictures; `normalization.json` says how
their values follow from what it draws.

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

constexpr std::string_view kMean =
    R"(The model answers at once with the mean image of what it is given. Zeros stand where a diffusion model sees a noisy
image.

)";

constexpr std::string_view kMeanUse = R"(```python
import torch
from diffusers import UNet2DModel

unet = UNet2DModel.from_pretrained("PATH OF THIS FOLDER", subfolder="unet")
zeros = torch.zeros(ZEROS)
mean = unet(IMAGES, 0 LABELS).sample
```
)";

constexpr std::string_view kOwn =
    R"(The model has what diffusers has no model for, periodic axes, volumes or numbers that are given with
each image:
`field_unet.py` computes it with diffusers' `UNet2DModel`.

)";

constexpr std::string_view kOwnMeanUse = R"(```python
import torch
from field_unet import FieldUNet2D

unet = FieldUNet2D.from_folder("PATH OF THIS FOLDER")
zeros = torch.zeros(ZEROS)
mean = unet(IMAGES, 0 PARAMETERS LABELS)
```
)";

constexpr std::string_view kOwnUse = R"(```python
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

constexpr std::string_view kMasked =
    R"(The images that the model has learned from have no values where a mask is 0, and what it answers there means
nothing.
)";
constexpr std::string_view kHeld =
    R"(At each step the denoised image is held at 0 there, so that the network is shown 0 and noise, as in training:
`ddpm sample` does so, pipelines of diffusers do not.
)";
constexpr std::string_view kOneMask =
    R"(`normalization.json` has the mask of whole images: `sides`, and `bits`, base64 of bytes of eight pixels each, the
first in the lowest bit.
)";
constexpr std::string_view kMasksOfImages =
    R"(Each image had a mask of its own, so that whoever draws gives one: `valid`, true where the image has values.
)";

/// Makes `valid` of the mask in normalization.json.
constexpr std::string_view kReadMask = R"(with open("PATH OF THIS FOLDER/normalization.json") as file:
    mask = json.load(file)["mask"]
bits = torch.frombuffer(bytearray(base64.b64decode(mask["bits"])), dtype=torch.uint8)
pixels = (bits[:, None] >> torch.arange(8)).flatten() % 2 == 1
valid = pixels[: HEIGHT * WIDTH].view(1, 1, HEIGHT, WIDTH)
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

/// The shape of the zeros that a regression sees: as many as are given with them, of what is given first.
std::string zeros_shape(const nn::UNet2DConfig& unet, const std::vector<std::string>& beside) {
  if (std::ranges::find(beside, "condition") != beside.end()) {
    return fmt::format("len(condition), {}, *condition.shape[2:]", unet.out_channels);
  }
  const std::string count = unet.num_parameters              ? "len(parameters)"
                            : nn::is_class_conditional(unet) ? "len(labels)"
                                                             : "1";
  return fmt::format("{}, {}, {}", count, unet.out_channels, fmt::join(nn::image_size(unet).sides(), ", "));
}

/// Whether images had masks.
bool is_masked(const base::Json& normalization) {
  if (!normalization.is_object()) return false;
  const base::Json fields = normalization.value("fields", base::Json::array());
  return std::ranges::any_of(fields, [](const base::Json& field) { return field.value("role", "") == "mask"; });
}

/// Whether the record has the mask of such images as the network makes.
bool has_mask_of_images(const WrittenModel& model) {
  if (!is_masked(model.normalization) || !model.normalization.contains("mask")) return false;
  const nn::ImageSize size = nn::image_size(model.unet);
  return model.normalization["mask"].value("sides", std::vector<int64_t>{}) == std::vector{size.height, size.width};
}

/// What the network would answer of a denoised image of zeros, in the names of the loop.
std::string_view answer_of_zeros(const WrittenScheduler& scheduler) {
  using diffusion::PredictionType;
  const bool velocity = scheduler.prediction == PredictionType::v_prediction;
  if (scheduler.formulation == diffusion::Formulation::edm) {
    return velocity ? "images * data / sigma / (sigma**2 + data**2) ** 0.5"
                    : "-images * data / sigma / (sigma**2 + data**2) ** 0.5";
  }
  if (scheduler.formulation == diffusion::Formulation::flow) {
    return "images * scheduler.config.num_train_timesteps / t";
  }
  if (scheduler.prediction == PredictionType::sample) return "torch.zeros_like(images)";
  if (diffusion::scales_input(scheduler.class_name)) {
    return velocity ? "images / sigma / (sigma**2 + 1) ** 0.5" : "images / sigma";
  }
  return velocity ? "images * (signal / (1 - signal)) ** 0.5" : "images / (1 - signal) ** 0.5";
}

/// The lines of the loop that hold the denoised image at 0 where it has no values.
std::string holding_of_mask(const WrittenScheduler& scheduler) {
  std::string names;
  if (scheduler.formulation == diffusion::Formulation::edm) {
    names = "    sigma, data = scheduler.sigmas[scheduler.step_index], scheduler.config.sigma_data\n";
  } else if (scheduler.formulation == diffusion::Formulation::ddpm && diffusion::scales_input(scheduler.class_name)) {
    // Whatever the order of the scheduler: shown are images / sqrt(sigma^2 + 1).
    names =
        "    shown = scheduler.scale_model_input(images, t)\n"
        "    sigma = ((images.norm() / shown.norm()) ** 2 - 1) ** 0.5\n";
  } else if (scheduler.formulation == diffusion::Formulation::ddpm) {
    names = "    signal = scheduler.alphas_cumprod[t]\n";
  }
  return fmt::format("{}    answer = torch.where(valid, answer, {})\n", names, answer_of_zeros(scheduler));
}

/// What the card says of the mask.
std::string mask_text(const WrittenModel& model) {
  std::string text(kMasked);
  if (model.scheduler.formulation != diffusion::Formulation::regression) text += kHeld;
  text += model.normalization.contains("mask") ? kOneMask : kMasksOfImages;
  return text.append(1, '\n');
}

/// The program and what is said of the mask, whose values are held at 0 where the program is a loop.
std::string with_mask(std::string text, const WrittenModel& model) {
  const bool masked = is_masked(model.normalization);
  const bool loops = text.find("HOLD_MASK") != std::string::npos;
  if (loops) {
    const bool read = has_mask_of_images(model);
    text = replaced(std::move(text), "MORE_IMPORTS", read ? "import base64\nimport json\n\n" : "");
    text = replaced(std::move(text), "READ_MASK", read ? kReadMask : "");
    text = replaced(std::move(text), "HOLD_MASK", masked ? holding_of_mask(model.scheduler) : "");
  }
  return masked ? mask_text(model) + text : text;
}

/// The program, with words in capitals for what differs from model to model, and what is said before it.
std::string use_of(const WrittenModel& model, const std::vector<std::string>& beside) {
  const auto joined = [](std::string_view before, std::string_view program) {
    return std::string(before).append(program);
  };
  const bool regression = model.scheduler.formulation == diffusion::Formulation::regression;
  if (!nn::fits_diffusers(model.unet)) {
    return regression ? joined(kMean, kOwn).append(kOwnMeanUse) : joined(kOwn, kOwnUse);
  }
  if (regression) return joined(kMean, kMeanUse);
  const bool classes = nn::is_class_conditional(model.unet);
  if (classes || !beside.empty()) return joined(classes ? kClasses : "", kOneAnswer);
  const std::string& scheduler = model.scheduler.class_name;
  const bool runs = !diffusion::scales_input(scheduler) && diffusion::takes_generator(scheduler) &&
                    !model.unet.sample_size.empty() && !is_masked(model.normalization);
  if (!runs) return std::string(kLoopUse);
  const bool fields = model.normalization.is_object() && model.normalization.value("dtype", "") == "float32";
  return fields ? joined(kValues, kLoopUse) : std::string(kUnconditionalUse);
}

}  // namespace

std::string card_use(const WrittenModel& model) {
  const nn::UNet2DConfig& unet = model.unet;
  const bool scaled = diffusion::scales_input(model.scheduler.class_name);
  const bool classes = nn::is_class_conditional(unet);
  const std::vector<std::string> beside = names_beside(model.normalization);
  std::string text = with_mask(use_of(model, beside), model);
  std::string noisy = scaled ? "scheduler.scale_model_input(noisy_images, t)" : "noisy_images";
  if (model.scheduler.formulation == diffusion::Formulation::regression) noisy = "zeros";
  if (!beside.empty()) text = std::string(kBeside) + text;
  // A pipeline takes 1,000 steps by itself, and a scheduler no more than the model knows timesteps.
  const int64_t timesteps = model.scheduler.timesteps;
  text = replaced(std::move(text), "ALL_OF_THEM",
                  timesteps < 1000 ? fmt::format(", num_inference_steps={}", timesteps) : "");
  text = replaced(std::move(text), "SOME_OF_THEM", std::to_string(std::min<int64_t>(50, timesteps)));
  text = replaced(std::move(text), "SCHEDULER", model.scheduler.class_name);
  text = replaced(std::move(text), "FROM_NOISE", scaled ? " * scheduler.init_noise_sigma" : "");
  text = replaced(std::move(text), "SHOWN", scaled ? "scheduler.scale_model_input(images, t)" : "images");
  text = replaced(std::move(text), "ZEROS", zeros_shape(unet, beside));
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
