// Where the model of a configuration comes from: keys that are read from files.

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "checkpoint/run_files.h"
#include "denoise/pretrained.h"
#include "interop/diffusers_reader.h"
#include "interop/written_model.h"
#include "nn/unet2d.h"
#include "train/config.h"

namespace ddpm::train {
namespace {

bool is_gone(const std::optional<std::string>& path) { return path && !base::is_there(*path); }

void expect_names(const denoise::ModelSource& source) {
  const auto expect = [](const char* key, const std::optional<std::string>& path, const char* wanted) {
    if (path && path->empty()) throw base::ConfigError("model.{} = \"\"; wanted: {}", key, wanted);
    if (!path || base::kind_of(*path) != base::FileKind::regular) return;
    throw base::ConfigError("model.{} = {}: is a file; wanted: the folder around it, {}", key, *path,
                            base::parent_of(*path).string());
  };
  expect("pretrained", source.pretrained, "a model folder, a run or a checkpoint");
  expect("lora_adapters", source.lora_adapters, "a folder of PEFT's, a run or a checkpoint");
}

/// The names of the layers that have an adapter, sorted.
std::vector<std::string> adapted_layers(nn::UNet2DConfig config, const nn::LoraConfig& lora) {
  config.lora = lora;
  const nn::UNet2D unet(config);
  std::vector<std::string> names;
  for (const nn::AdaptableLayer* layer : unet.adapted()) names.push_back(layer->name());
  std::ranges::sort(names);
  return names;
}

}  // namespace

bool Configuration::apply_begun_run() {
  const denoise::ModelSource& source = values_.model_source;
  const bool gone = is_gone(source.config) || is_gone(source.pretrained) || is_gone(source.lora_adapters);
  if (!gone || values_.run.directory.empty()) return false;
  const base::Path stored = base::Path(values_.run.directory) / checkpoint::kConfigName;
  if (!base::is_there(stored)) return false;
  Configuration configuration;
  read_run_configuration(stored, configuration);
  const Config& begun = configuration.values();
  const denoise::ModelSource& then = begun.model_source;
  const auto differs = [](const auto& before, const auto& now) { return is_gone(now) && before != now; };
  if (differs(then.config, source.config) || differs(then.pretrained, source.pretrained) ||
      differs(then.lora_adapters, source.lora_adapters)) {
    return false;
  }
  nn::LoraConfig lora = source.lora_adapters ? begun.model.lora : values_.model.lora;
  values_.model = begun.model;
  values_.model.lora = std::move(lora);
  values_.diffusion.scheduler = begun.diffusion.scheduler;
  return true;
}

std::optional<nn::LoraConfig> Configuration::apply_model_source(const base::FileSystem& files) {
  const denoise::ModelSource& source = values_.model_source;
  expect_names(source);
  if (!apply_begun_run()) {
    nn::LoraConfig lora = values_.model.lora;
    if (source.config) values_.model = interop::read_unet_config(*source.config);
    if (source.pretrained) {
      denoise::PretrainedConfig pretrained = denoise::read_pretrained_config(files, source, read_run_model);
      if (!source.config) values_.model = std::move(pretrained.unet);
      if (const auto& scheduler = pretrained.scheduler) {  // whose file may have keys that training does not read
        values_.diffusion.scheduler = diffusion::keys_shared_with(*scheduler, scheduler->formulation);
      }
    }
    if (source.lora_adapters) lora = denoise::read_adapter_config(files, source, values_.model, read_run_model);
    values_.model.lora = std::move(lora);
  }
  return source.lora_adapters ? std::optional(values_.model.lora) : std::nullopt;
}

void Configuration::expect_adapters(const nn::LoraConfig& stored) const {
  const nn::LoraConfig& asked = values_.model.lora;
  if (!values_.model_source.pretrained) return;  // validate_source() refuses this
  if (asked.is_like(stored) && asked.targets == stored.targets) return;
  const std::vector<std::string> has = adapted_layers(values_.model, stored);
  const std::vector<std::string> wants = adapted_layers(values_.model, asked);
  std::vector<std::string> differing;
  std::ranges::set_symmetric_difference(has, wants, std::back_inserter(differing));
  if (asked.is_like(stored) && differing.empty()) return;
  const auto text = [](const nn::LoraConfig& lora, const std::vector<std::string>& layers) {
    return fmt::format("lora_rank = {}, lora_alpha = {} and {}", lora.rank,
                       lora.alpha.value_or(static_cast<double>(lora.rank)), base::counted(std::ssize(layers), "layer"));
  };
  const std::string difference =
      differing.empty()
          ? ""
          : fmt::format("; {} of lora_targets {}, first {}", base::counted(std::ssize(differing), "layer"),
                        differing.size() == 1 ? "differs" : "differ", differing.front());
  throw base::ConfigError(
      "model.lora_adapters = {}: its adapters have {}; the configuration asks for {}{}; wanted: no lora_ keys, which "
      "the adapters set",
      *values_.model_source.lora_adapters, text(stored, has), text(asked, wants), difference);
}

void Configuration::validate_source(const base::FileSystem& files) const {
  const Config& c = values_;
  const denoise::ModelSource& source = c.model_source;
  if (!source.pretrained && !source.pretrained_weights.empty()) {
    throw base::ConfigError("model.pretrained_weights = \"{}\", but model.pretrained is not set",
                            source.pretrained_weights);
  }
  if (source.pretrained && !c.diffusion.mean_model && denoise::has_mean_model(files, *source.pretrained)) {
    throw base::ConfigError(
        "model.pretrained = {}: the model draws what a regression leaves; wanted: diffusion.mean_model, its folder {}",
        *source.pretrained, interop::kMeanFolder);
  }
  if (source.lora_adapters && !source.pretrained) {
    throw base::ConfigError(
        "model.lora_adapters = {}: adapters belong to a model, but model.pretrained is not set; wanted: its folder",
        *source.lora_adapters);
  }
  if (c.model.lora.rank == 0) return;
  if (c.model.lora.targets.empty()) {
    throw base::ConfigError("model.lora_targets is empty; wanted: \"attention\", \"convolutions\" or names of layers");
  }
  if (source.pretrained && denoise::pretrained_run(files, *source.pretrained)) {
    throw base::ConfigError(
        "model.pretrained = {}: adapters belong to a model folder, which PEFT opens; wanted: the run's folder model/",
        *source.pretrained);
  }
  if (source.pretrained) return;
  throw base::ConfigError(
      "model.lora_rank = {}: adapters are trained beside the weights of a model, but model.pretrained is not set; "
      "wanted: a model folder",
      c.model.lora.rank);
}

}  // namespace ddpm::train
