#include "denoise/model_source.h"

namespace ddpm::denoise {

void describe(config::Section& section, ModelSource& c) {
  section
      .key("config", c.config,
           "A diffusers config.json, or a folder with one, that gives the keys below; keys set here override it.",
           {.identity = config::Identity::may_change})
      .key("pretrained", c.pretrained,
           "A model folder (diffusers' layout), a run or a checkpoint whose weights training starts from. Its "
           "config.json counts as `config`, and its scheduler_config.json gives keys of [diffusion] that are not set.")
      .key(
          "pretrained_weights", c.pretrained_weights,
          "Which weights of `pretrained`: raw, ema or, of a run, ema:I. Empty: of a run the first average where it has "
          "one, of a model folder those in unet/; one that also holds averages (unet_ema/) has to be told.");
}

}  // namespace ddpm::denoise
