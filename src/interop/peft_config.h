// The folder of Hugging Face's PEFT for LoRA adapters: adapter_config.json and adapter_model.safetensors. This reads
// what the former says; interop/peft_adapter.h writes both, UNetWeights::of_adapters() reads the latter.
#pragma once

#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/json.h"
#include "nn/lora.h"

namespace ddpm::interop {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";
/// PEFT puts a model into its own, whose names begin so.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

/// Whether `path` is a folder with an adapter_config.json.
bool is_peft_folder(const base::Path& path);

/// Rank, alpha and targets of adapters of the one kind that is trained here. Throws OutputError, which begins with
/// `origin`, for damaged files, and for adapters that compute something else: rsLoRA, DoRA, ranks by a pattern, biases
/// that are trained, and every other key that is set and not known to leave the layers' outputs as they are.
nn::LoraConfig parse_peft_config(const base::Json& json, const std::string& origin);
nn::LoraConfig read_peft_config(const base::Path& folder);

/// The folder's lora_dropout, by which its adapters were trained and which their outputs do not depend on; 0 where it
/// tells none. Throws OutputError.
double read_peft_dropout(const base::Path& folder);

}  // namespace ddpm::interop
