#include "interop/peft_adapter.h"

#include <vector>

#include "base/json.h"
#include "interop/card_parts.h"
#include "interop/card_text.h"
#include "interop/diffusers_writer.h"
#include "interop/model_files.h"
#include "interop/peft_config.h"
#include "nn/unet2d.h"

namespace ddpm::interop {
namespace {

/// The keys of PEFT's LoraConfig that say what was trained; others have their defaults.
base::OrderedJson adapter_config(const WrittenAdapter& adapter) {
  const nn::LoraConfig& lora = adapter.unet.config().lora;
  base::OrderedJson modules = base::OrderedJson::array();
  for (const nn::AdaptableLayer* layer : adapter.unet.adapted()) modules.push_back(layer->name());
  return {{"base_model_name_or_path", base_name(adapter)},
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

}  // namespace

void write_peft_adapter(base::FileSystem& files, const base::Path& directory, const WrittenAdapter& adapter) {
  std::vector<NamedTensor> weights;
  for (const auto& [name, value] : adapter.weights) weights.emplace_back(std::string(kPeftPrefix) + name, value);
  publish_folder(files, directory, [&](const base::Path& folder) {
    files.create_directory(folder);
    base::write_new_file(files, folder / kAdapterConfig, adapter_config(adapter).dump(2) + "\n");
    write_weights(files, folder / kAdapterWeights, weights, adapter.dtype);
    base::write_new_file(files, folder / kCardName, adapter_card_text(adapter));
    files.sync_directory(folder);
  });
}

}  // namespace ddpm::interop
