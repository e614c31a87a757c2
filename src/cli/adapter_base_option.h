// The option of commands that load models of runs with adapters.
#pragma once

namespace ddpm::cli {

inline constexpr const char* kBaseHelp =
    "Of a run with adapters (model.lora_rank): the model folder that they belong to, where it has moved; its weights "
    "are compared with those that the checkpoint remembers";

}  // namespace ddpm::cli
