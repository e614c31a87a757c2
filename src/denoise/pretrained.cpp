#include "denoise/pretrained.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "comm/collectives.h"
#include "denoise/folder_weights.h"
#include "denoise/input_places.h"
#include "denoise/unet_tensors.h"
#include "diffusion/scheduler_json.h"
#include "interop/model_files.h"
#include "interop/peft_config.h"
#include "interop/unet_json.h"
#include "interop/written_model.h"
#include "run/find_run.h"
#include "run/run_folder.h"
#include "run/snapshot.h"
#include "run/weight_choice.h"

namespace ddpm::denoise {
namespace {

constexpr const char* kWeightsKey = "model.pretrained_weights =";
constexpr const char* kInputs = "conv_in.weight";
constexpr const char* kNewClasses = "class_embedding.weight";
constexpr const char* kNewParameters = "parameter_embedding.";
constexpr const char* kParameters = "parameter_embedding.linear_1.weight";

/// The axis along which a model may have more of a weight than the one that it starts from; what is new is zeros.
std::optional<std::size_t> growing_axis(const std::string& name, const std::vector<int64_t>& shape) {
  if (name == kInputs) return 1;
  if (name == kNewClasses && shape.size() == 2) return 0;
  return std::nullopt;
}

/// The axis along which what a weight reads or holds has names, by which it is placed.
std::size_t named_axis(const std::string& name, const std::vector<int64_t>& shape) {
  return name == kParameters ? 1 : growing_axis(name, shape).value();
}

bool may_grow(const std::string& name, std::vector<int64_t> stored, const std::vector<int64_t>& wanted) {
  const auto axis = growing_axis(name, wanted);
  if (!axis || stored.size() != wanted.size() || stored[*axis] > wanted[*axis]) return false;
  stored[*axis] = wanted[*axis];
  return stored == wanted;
}

/// Throws unless a model of `wanted` weights may start from `stored` ones.
void expect_fitting(const interop::ExpectedShapes& stored, const interop::ExpectedShapes& wanted,
                    const std::string& origin) {
  const auto fail = [&](const std::string& name, const std::string& seen, const std::string& what) {
    throw base::OutputError("{}: does not fit the model: {} {}; wanted: {}", origin, name, seen, what);
  };
  for (const auto& [name, shape] : stored) {
    const auto found = wanted.find(name);
    if (found == wanted.end())
      fail(name, "is a weight that the model does not have", "the keys of [model] as they were");
    if (shape == found->second || may_grow(name, shape, found->second)) continue;
    fail(name, fmt::format("is [{}]", fmt::join(shape, ", ")), fmt::format("[{}]", fmt::join(found->second, ", ")));
  }
  for (const auto& [name, shape] : wanted) {
    if (stored.contains(name) || name == kNewClasses || name.starts_with(kNewParameters)) continue;
    fail(name, "is missing", "the keys of [model] as they were");
  }
}

/// Leaves out the targets that mean no layer of the model.
void keep_targets_of(nn::UNet2DConfig config, const base::Path& folder, std::vector<std::string>& targets) {
  config.lora = {};
  const nn::UNet2D model(config);
  const std::vector<const nn::AdaptableLayer*> layers = model.adaptable();
  std::vector<std::string> kept;
  std::ranges::copy_if(targets, std::back_inserter(kept), [&](const std::string& target) {
    return std::ranges::any_of(layers, [&](const nn::AdaptableLayer* l) { return l->is_target(target); });
  });
  if (kept.empty()) {
    throw base::OutputError(
        "{}: 'target_modules' names {}, first \"{}\", but none of the model's; wanted: the adapters of this model",
        (folder / interop::kAdapterConfig).string(), base::counted(std::ssize(targets), "layer"), targets.front());
  }
  targets = std::move(kept);
}

}  // namespace

std::optional<run::FoundRun> pretrained_run(const base::FileSystem& files, const base::Path& path) {
  auto found = run::look_for_run(files, path);
  return found && found->certain() ? found : std::nullopt;
}

bool has_mean_model(const base::FileSystem& files, const base::Path& path) {
  const auto run = pretrained_run(files, path);
  if (!run && !holds_weights(path)) return false;  // also what was there when the run began
  return base::is_there((run ? run->run : interop::pipeline_folder(path)) / interop::kMeanFolder);
}

base::Path pretrained_folder(const ModelSource& source) {
  const base::Path path = *source.pretrained;
  const std::string& weights = source.pretrained_weights;
  if (weights == run::kFirstAverage && !interop::is_model_folder(path / interop::kAveragesFolder)) {
    throw base::OutputError("{}: model.pretrained_weights = \"ema\", but it holds no folder {} with averages",
                            path.string(), interop::kAveragesFolder);
  }
  return folder_of_weights(path, {.choice = weights,
                                  .text = fmt::format("{} \"{}\"", kWeightsKey, weights),
                                  .possible = fmt::format("{} \"raw\" or \"ema\"", kWeightsKey)});
}

PretrainedConfig read_pretrained_config(const base::FileSystem& files, const ModelSource& source,
                                        const ReadRunModel& read_run) {
  if (const auto run = pretrained_run(files, *source.pretrained)) {
    RunModel model = read_run(run->run / checkpoint::kConfigName);
    if (model.unet.lora.rank > 0) {
      throw base::OutputError(
          "{}: its checkpoints hold adapters alone; wanted: its folder model/, into which they are merged, or as "
          "model.pretrained the model that they belong to and as model.lora_adapters this",
          *source.pretrained);
    }
    return {.unet = model.unet, .scheduler = model.scheduler};
  }
  if (interop::is_peft_folder(*source.pretrained)) {
    throw base::OutputError(
        "{}: a folder of adapters alone; wanted: as model.pretrained the model that they belong to, and as "
        "model.lora_adapters this",
        *source.pretrained);
  }
  if (!base::is_there(*source.pretrained)) {
    throw base::OutputError(
        "model.pretrained = {}: not there; wanted: a run, a checkpoint or a diffusers model folder{}",
        *source.pretrained, interop::hub_hint(*source.pretrained));
  }
  const base::Path folder = pretrained_folder(source);
  PretrainedConfig config{.unet = interop::read_model_config(folder), .scheduler = std::nullopt};
  // The weights predict what they were trained to predict, at the noise levels they were trained on.
  if (const auto scheduler = interop::read_scheduler(folder)) {
    config.scheduler =
        diffusion::read_scheduler(scheduler->json, diffusion::SamplerType::ddpm, scheduler->path.string());
  }
  return config;
}

void warn_of_changed_diffusion(const ModelSource& source, const diffusion::SchedulerConfig& scheduler,
                               const ReadRunModel& read_run, const run::Runtime& runtime) {
  comm::do_on_root(runtime.session.world(), [&] {
    const auto trained = read_pretrained_config(runtime.files, source, read_run).scheduler;
    if (!trained) {
      return runtime.log.warn(
          "{}: has no scheduler_config.json, which says what its model was trained for; it goes on with diffusion.{}; "
          "wanted: these keys, where that is not so",
          *source.pretrained, fmt::join(diffusion::network_keys(scheduler), ", "));
    }
    const auto changed = diffusion::changed_network_keys(*trained, scheduler);
    if (changed.empty()) return;
    runtime.log.warn("{}: it goes on with diffusion.{}, which its weights were not trained for", *source.pretrained,
                     fmt::join(changed, " and diffusion."));
  });
}

nn::LoraConfig read_adapter_config(const base::FileSystem& files, const ModelSource& source,
                                   const nn::UNet2DConfig& model, const ReadRunModel& read_run) {
  const base::Path path = *source.lora_adapters;
  if (interop::is_peft_folder(path)) {
    nn::LoraConfig lora = interop::read_peft_config(path);
    if (source.pretrained) keep_targets_of(model, path, lora.targets);
    return lora;
  }
  const auto run = pretrained_run(files, path);
  nn::LoraConfig lora;
  if (run) lora = read_run(run->run / checkpoint::kConfigName).unet.lora;
  if (lora.rank > 0) return lora;
  throw base::OutputError(
      "model.lora_adapters = {}: holds no adapters; wanted: a folder of PEFT's, with {}, or a run with "
      "model.lora_rank or a checkpoint of one{}",
      path.string(), interop::kAdapterConfig, interop::hub_hint(path));
}

PretrainedWeights::PretrainedWeights(const ModelSource& source, const nn::UNet2D& model, const ImageRecord& images,
                                     const ReadRunModel& read_run, const run::Runtime& runtime)
    : world_(runtime.session.world()),
      adapters_(model.config().lora.rank > 0),
      path_(adapters_ ? *source.lora_adapters : *source.pretrained),
      wanted_(adapters_ ? adapter_shapes(model) : expected_shapes(model)) {
  const bool is_run = comm::ask_root(world_, [&] { return pretrained_run(runtime.files, path_).has_value(); });
  if (is_run) {
    open_run(adapters_ ? "" : source.pretrained_weights, read_run, runtime);
  } else if (adapters_) {
    open_adapter_folder(runtime.log);
  } else {
    comm::agree(world_, [&] { open_folder(source); });
    file_.emplace(description_, stored_, world_);
  }
  comm::agree(world_, [&] { expect_fitting(stored_, wanted_, path_.string()); });
  if (adapters_) return;
  comm::agree(world_, [&] { place_all(model.config(), images, runtime.log); });
  warn_of_changes(source, model.config(), read_run, runtime);
}

void PretrainedWeights::place_all(const nn::UNet2DConfig& model, const ImageRecord& images, const base::Logger& log) {
  std::vector<std::string> renamed;
  const auto take = [&](const char* weight, InputPlaces found) {
    places_[weight] = std::move(found.places);
    std::ranges::move(found.renamed, std::back_inserter(renamed));
  };
  const std::string origin = path_.string();
  const int64_t channels = stored_.at(kInputs).at(1);
  if (images_before_) {
    take(kInputs, place_inputs(*images_before_, images, model.out_channels, channels, origin));
    if (const auto parameters = stored_.find(kParameters); parameters != stored_.end()) {
      take(kParameters, place_parameters(*images_before_, images, parameters->second.at(1), origin));
    }
  } else {
    place_unknown_inputs(model, channels);
  }
  if (const auto table = stored_.find(kNewClasses);
      table != stored_.end() && growing_axis(kNewClasses, table->second)) {
    const ClassRows rows{.before = table->second.front(),
                         .now = wanted_.at(kNewClasses).front(),
                         .null_class = class_dropout_before_ > 0.0};
    take(kNewClasses, place_class_rows(classes_before_, images.class_names, rows, origin));
  }
  if (!renamed.empty()) {
    log.warn("{}: it goes on with the {}: none has a name that it was trained with, and their order counts", origin,
             fmt::join(renamed, " and the "));
  }
  if (!images_before_) return;
  const auto changed = changed_transforms(*images_before_, images, model.out_channels);
  if (changed.empty()) return;
  log.warn("{}: it goes on with other transforms of {}, first {}, so that the same values are others to the model",
           origin, base::counted(std::ssize(changed), "variable"), changed.front());
}

void PretrainedWeights::place_unknown_inputs(const nn::UNet2DConfig& model, int64_t channels) {
  if (channels > model.out_channels && channels < model.in_channels) {
    throw base::OutputError(
        "{}: has no {} that says what its {} are, so that new ones cannot be put beside them; wanted: "
        "model.in_channels = {}, or a folder or run of this program",
        path_.string(), interop::kNormalizationName, base::counted(channels, "input channel"), channels);
  }
  places_[kInputs] = same_places(channels);
}

void PretrainedWeights::warn_of_changes(const ModelSource& source, const nn::UNet2DConfig& model,
                                        const ReadRunModel& read_run, const run::Runtime& runtime) {
  comm::do_on_root(world_, [&] {
    const auto changed =
        interop::changed_model_keys(read_pretrained_config(runtime.files, source, read_run).unet, model);
    if (changed.empty()) return;
    runtime.log.warn("{}: it goes on with model.{}, by which its predictions change", path_.string(),
                     fmt::join(changed, " and model."));
  });
}

void PretrainedWeights::open_adapter_folder(const base::Logger& log) {
  file_.emplace([this] { return interop::UNetWeights::of_adapters(path_, wanted_); }, wanted_, world_);
  stored_ = wanted_;
  description_ = path_.string();
  comm::do_on_root(world_, [&] {
    const double dropout = interop::read_peft_dropout(path_);
    if (dropout == 0.0) return;
    log.warn("{}: its adapters were trained with lora_dropout = {}; training goes on without it", path_.string(),
             dropout);
  });
}

void PretrainedWeights::expect_trained_beside(const AdapterBase& base) {
  if (!adapters_ || !checkpoint_) return;
  comm::agree(world_, [&] {
    const std::string origin = run::state_origin(*checkpoint_);
    expect_same_base(read_adapter_base(checkpoint_->manifest.state, origin), base);
  });
}

void PretrainedWeights::open_folder(const ModelSource& source) {
  const base::Path folder = pretrained_folder(source);
  stored_ = expected_shapes(nn::UNet2D(interop::read_model_config(folder)));
  description_ = folder.string();
  classes_before_ = interop::read_class_names(folder);
  const auto normalization = interop::read_normalization(folder);
  if (!normalization) return;
  const std::string origin = (interop::pipeline_folder(folder) / interop::kNormalizationName).string();
  images_before_.emplace().set_normalization(*normalization, origin);
  class_dropout_before_ = class_dropout_in(*normalization, origin).value_or(0.0);
}

void PretrainedWeights::open_run(const std::string& weights, const ReadRunModel& read_run,
                                 const run::Runtime& runtime) {
  const auto place = run::find_run(runtime.files, world_, path_);
  store_.emplace(runtime.files, world_, place->run, runtime.log);
  checkpoint_ = place->checkpoint ? std::optional(store_->open(*place->checkpoint)) : store_->find();
  comm::agree(world_, [&] {
    if (!checkpoint_) run::refuse_without_checkpoint(place->run.string());
    const RunModel trained = read_run(place->run / checkpoint::kConfigName);
    choice_ = run::WeightChoice::of_run(weights, kWeightsKey, trained.averages, place->run);
    if (choice_.relative_length) {
      throw base::ConfigError(
          "{} {}: training starts from weights that a checkpoint holds; wanted: the model folder of "
          "`ddpm checkpoint export --ema-length`",
          kWeightsKey, weights);
    }
    take_tensors();
    const base::Json& state = checkpoint_->manifest.state;
    if (holds_image_record(state)) {
      images_before_ = read_image_record(state, run::state_origin(*checkpoint_));
      classes_before_ = images_before_->class_names;
    }
    class_dropout_before_ = trained.class_dropout;
    description_ =
        fmt::format("{}, step {}, {} weights", place->run.string(), checkpoint_->manifest.step, choice_.text());
  });
}

/// The model's tensors in the checkpoint, or its adapters' alone. A constant has no average.
void PretrainedWeights::take_tensors() {
  const std::vector<checkpoint::ManifestTensor>& tensors = checkpoint_->manifest.tensors;
  const std::string prefix = run::WeightChoice{}.tensor_prefix();
  for (const checkpoint::ManifestTensor& tensor : tensors) {
    if (!tensor.name.starts_with(prefix)) continue;
    const std::string name = tensor.name.substr(prefix.size());
    const bool trained =
        std::ranges::binary_search(tensors, choice_.tensor_prefix() + name, {}, &checkpoint::ManifestTensor::name);
    if (adapters_ && !trained) continue;
    stored_[name] = tensor.shape;
    roles_[name] = trained ? base::ParameterRole::trained : base::ParameterRole::constant;
  }
}

void PretrainedWeights::for_each(const std::function<void(const std::string& name, const at::Tensor& values)>& use) {
  for_each_stored([&](const std::string& name, const at::Tensor& values) { use(name, placed(name, values)); });
  for (const auto& [name, shape] : wanted_) {
    if (!stored_.contains(name) && !is_left(name)) use(name, at::zeros(shape, at::kFloat));
  }
}

at::Tensor PretrainedWeights::placed(const std::string& name, const at::Tensor& values) const {
  const auto places = places_.find(name);
  if (places == places_.end()) return values;
  const std::vector<int64_t>& shape = wanted_.at(name);
  const auto axis = static_cast<int64_t>(named_axis(name, shape));
  return at::zeros(shape, values.options()).index_copy_(axis, at::tensor(places->second, at::kLong), values);
}

bool PretrainedWeights::leaves_some() const {
  return std::ranges::any_of(wanted_, [this](const auto& weight) { return is_left(weight.first); });
}

bool PretrainedWeights::is_left(const std::string& name) const {
  return !stored_.contains(name) && name.starts_with(std::string(kNewParameters) + "linear_1");
}

void PretrainedWeights::for_each_stored(
    const std::function<void(const std::string& name, const at::Tensor& values)>& use) {
  if (file_) return file_->for_each(use);
  for (const auto& [name, shape] : stored_) {
    const run::ModelTensor tensor{
        .name = name, .shape = shape, .role = roles_.at(name), .value = at::empty(shape, at::kFloat)};
    run::restore_weights({&tensor, 1}, choice_, *store_, *checkpoint_);
    use(name, tensor.value);
  }
}

}  // namespace ddpm::denoise
