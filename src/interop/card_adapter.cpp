#include <fmt/format.h>

#include "base/counted.h"
#include "base/json.h"
#include "interop/card_parts.h"
#include "interop/card_text.h"
#include "nn/unet2d.h"

namespace ddpm::interop {
namespace {

std::string adapter_use(const WrittenAdapter& adapter) {
  std::string text = fmt::format(R"(
```python
from diffusers import UNet2DModel
from peft import PeftModel

unet = UNet2DModel.from_pretrained({}, subfolder="unet")  # without subfolder, where it is a unet folder itself
unet = PeftModel.from_pretrained(unet, "PATH OF THIS FOLDER")
```

`unet.merge_and_unload()` makes of them the weights of one model.
)",
                                 base::Json(base_name(adapter)).dump());
  if (!adapter.card.stated.base_model.empty()) return text;
  return text +
         "\nBefore these are published, say above which model on the hub they belong to, as `base_model: OWNER/NAME`\n"
         "(`card.base_model`): the path is that of the machine where they were trained.\n";
}

}  // namespace

const std::string& base_name(const WrittenAdapter& adapter) {
  const std::string& stated = adapter.card.stated.base_model;
  return stated.empty() ? adapter.base : stated;
}

std::string adapter_card_text(const WrittenAdapter& adapter) {
  const ModelCard& card = adapter.card;
  const nn::UNet2DConfig& unet = adapter.unet.config();
  std::string text =
      card_metadata(card, {.library = "peft", .task = task_of(unet), .tags = {"lora", "ddpm"}, .relation = "adapter"});
  text += head_text(card, fmt::format("LoRA adapters of rank {} in {}", unet.lora.rank,
                                      base::counted(std::ssize(adapter.unet.adapted()), "layer")));
  text += training_text(card, adapter.dtype) + "\n## Use\n" + adapter_use(adapter);
  text += "\nThe model's values relate to stored image values as follows:\n";
  return text + end_text(card, adapter.normalization, adapter.formulation);
}

}  // namespace ddpm::interop
