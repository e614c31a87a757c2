#include "denoise/model_source.h"

namespace ddpm::denoise {

void describe(config::Section& section, ModelSource& c) {
  section
      .key("config", c.config,
           "A diffusers config.json, or a folder with one, that gives the keys below; keys set here override it.",
           {.identity = config::Identity::may_change})
      .key("pretrained", c.pretrained,
           "A model folder (diffusers' layout), a run or a checkpoint whose weights training starts from. Its "
           "config.json counts as `config`, and its scheduler_config.json gives keys of [diffusion] that are not set. "
           "With lora_rank it may be named anew on resume, where it has moved: its weights are compared.",
           {.freed_by = "lora_rank"})
      .key(
          "pretrained_weights", c.pretrained_weights,
          "Which weights of `pretrained`: raw, ema or, of a run, ema:I. Empty: of a run the first average where it has "
          "one, of a model folder those in unet/; one that also holds averages (unet_ema/) has to be told.")
      .key("lora_adapters", c.lora_adapters,
           "Adapters that training starts from, beside the weights of `pretrained`: a folder of PEFT's, a run with "
           "lora_rank or a checkpoint of one (its first average where there is one). They give lora_rank, lora_alpha "
           "and lora_targets.");
}

}  // namespace ddpm::denoise
