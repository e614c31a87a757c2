#include "train/first_weights.h"

namespace ddpm::train {

std::unique_ptr<denoise::PretrainedWeights> open_first_weights(const Config& config, const nn::UNet2D& unet,
                                                               const denoise::ImageRecord& images,
                                                               const run::Runtime& runtime) {
  const denoise::ModelSource& source = config.model_source;
  if (source.pretrained) {
    denoise::warn_of_changed_diffusion(source, config.diffusion.scheduler, read_run_model, runtime);
  }
  const bool adapters = config.model.lora.rank > 0;
  if (adapters ? !source.lora_adapters : !source.pretrained) return nullptr;
  return std::make_unique<denoise::PretrainedWeights>(source, unet, images, read_run_model, runtime);
}

}  // namespace ddpm::train
