#include "nn/lora.h"

namespace ddpm::nn {
namespace {

constexpr int64_t kMaxRank = 4096;

}  // namespace

double LoraConfig::scale() const {
  const auto width = static_cast<double>(rank);
  return alpha.value_or(width) / width;
}

void describe(config::Section& section, LoraConfig& c) {
  section
      .key("lora_rank", c.rank,
           "Rank of LoRA adapters, which are trained in place of the weights of model.pretrained. 0: none.",
           {.min = 0, .max = static_cast<double>(kMaxRank)})
      .key("lora_alpha", c.alpha, "What adapters add is multiplied by this over lora_rank.",
           {.min = 0, .above_min = true, .default_text = "lora_rank"})
      .key("lora_targets", c.targets,
           "Layers that have an adapter: \"attention\" (queries, keys, values and what follows them), \"convolutions\" "
           "(all), or as PEFT's target_modules the end of a layer's name, such as \"conv1\" or \"time_emb_proj\".");
}

}  // namespace ddpm::nn
