#include "interop/peft_adapter.h"

#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "interop/peft_config.h"

namespace ddpm::interop {
namespace {

/// The keys of PEFT's LoraConfig that say what was trained; others have their defaults.
base::OrderedJson adapter_config(const WrittenAdapter& adapter) {
  const nn::LoraConfig& lora = adapter.unet.config().lora;
  base::OrderedJson modules = base::OrderedJson::array();
  for (const nn::AdaptableLayer* layer : adapter.unet.adapted()) modules.push_back(layer->name());
  return {{"base_model_name_or_path", adapter.base},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", lora.scale() * static_cast<double>(lora.rank)},
          {"lora_dropout", 0.0},
          {"peft_type", "LORA"},
          {"r", lora.rank},
          {"target_modules", modules},
          {"task_type", nullptr}};
}

std::string readme(const WrittenAdapter& adapter) {
  return fmt::format(R"(---
library_name: peft
tags:
- lora
---

# LoRA adapters

They belong to the model in `{0}`, and were trained with ddpm (rank {1}, {2} layers).

```python
from diffusers import UNet2DModel
from peft import PeftModel

unet = UNet2DModel.from_pretrained({3}, subfolder="unet")  # without subfolder, where it is a unet folder itself
unet = PeftModel.from_pretrained(unet, "PATH OF THIS FOLDER")
```

`unet.merge_and_unload()` makes of them the weights of one model. Before these are published, say above which model on the hub they
belong to, as `base_model: OWNER/NAME`: the path is that of the machine where they were trained.
)",
                     adapter.base, adapter.unet.config().lora.rank, adapter.unet.adapted().size(),
                     base::Json(adapter.base).dump());
}

}  // namespace

void write_peft_adapter(base::FileSystem& files, const base::Path& directory, const WrittenAdapter& adapter) {
  std::vector<NamedTensor> weights;
  for (const auto& [name, value] : adapter.weights) weights.emplace_back(std::string(kPeftPrefix) + name, value);
  publish_folder(files, directory, [&](const base::Path& folder) {
    files.create_directory(folder);
    base::write_new_file(files, folder / kAdapterConfig, adapter_config(adapter).dump(2) + "\n");
    write_weights(files, folder / kAdapterWeights, weights, adapter.dtype);
    base::write_new_file(files, folder / "README.md", readme(adapter));
    files.sync_directory(folder);
  });
}

}  // namespace ddpm::interop
