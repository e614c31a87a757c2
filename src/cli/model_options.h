// The options of commands that load models.
#pragma once

namespace ddpm::cli {

inline constexpr const char* kWeightsHelp =
    "raw, ema, ema:I or length:S; the first average where there is one. Of a diffusers folder raw or ema, which has to "
    "be told where it holds both (unet_ema/)";

inline constexpr const char* kBaseHelp =
    "Of a run with adapters (model.lora_rank): the model folder that they belong to, where it has moved; its weights "
    "are compared with those that the checkpoint remembers";

}  // namespace ddpm::cli
