#include "denoise/load_model.h"

#include <map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "comm/collectives.h"
#include "denoise/adapter_base.h"
#include "denoise/folder_weights.h"
#include "denoise/mean_model.h"
#include "denoise/model_fit.h"
#include "denoise/model_inputs.h"
#include "denoise/null_class.h"
#include "denoise/shared_weights.h"
#include "denoise/unet_tensors.h"
#include "diffusion/scheduler_json.h"
#include "interop/diffusers_reader.h"
#include "interop/diffusers_writer.h"
#include "interop/model_files.h"
#include "interop/peft_config.h"
#include "run/find_run.h"
#include "run/run_folder.h"
#include "run/snapshot.h"
#include "run/weight_choice.h"

namespace ddpm::denoise {
namespace {

void bind(nn::UNet2D& unet, at::Device device) {
  nn::allocate(unet.parameters(), at::TensorOptions().dtype(at::kFloat).device(device));
}

/// What is recorded of the images must be what the model takes: sides that it halves without a rest, on as many axes.
void expect_fitting(const ImageRecord& image, const nn::UNet2DConfig& model, const std::string& origin) {
  if ((model.dimensions == 3) != (image.depth > 0)) {
    throw base::OutputError("{}: its images have {} axes, but model.dimensions = {}", origin, image.sides().size(),
                            model.dimensions);
  }
  const std::string problem =
      nn::size_problem(model, {.height = image.height, .width = image.width, .depth = image.depth});
  if (!problem.empty()) throw base::OutputError("{}: {}", origin, problem);
  if (image.wraps.empty() || image.wraps.size() == image.sides().size()) return;
  throw base::OutputError("{}: 'wraps' tells of {} axes; its images have {}", origin, image.wraps.size(),
                          image.sides().size());
}

/// Where a run's weights come from.
struct WeightSource {
  run::WeightChoice choice;
  run::PowerAverages power_averages;
  checkpoint::CheckpointStore& store;
  const checkpoint::Checkpoint& checkpoint;
  const base::Logger& log;

  void restore(std::span<const run::ModelTensor> model) const {
    if (!choice.relative_length) return run::restore_weights(model, choice, store, checkpoint);
    run::restore_average_of_length(model, *choice.relative_length, power_averages, store, checkpoint, log);
  }
};

/// Reads the adapters that a checkpoint holds of a model like `unet`, and the weights beside which they were trained,
/// and merges both into `unet`. Returns the adapters.
LoadedAdapters merge_adapters(nn::UNet2D& unet, const nn::LoraConfig& lora, const WeightSource& source,
                              const std::optional<base::Path>& asked_base, comm::Communicator& world) {
  const at::NoGradGuard no_grad;
  AdapterBase remembered;
  comm::agree(world, [&] {
    const checkpoint::Checkpoint& from = source.checkpoint;
    remembered = read_adapter_base(from.manifest.state, run::state_origin(from));
  });
  const base::Path place = asked_base.value_or(remembered.path);
  comm::do_on_root(world, [&] { expect_base(place, "--base DIR"); });
  nn::UNet2DConfig config = unet.config();
  config.lora = lora;
  auto owned = std::make_unique<nn::UNet2D>(config);
  const nn::UNet2D& adapted = *owned;
  AdapterValues adapters;
  std::vector<run::ModelTensor> tensors = model_tensors(adapted);
  std::erase_if(tensors, [](const auto& tensor) { return tensor.role != base::ParameterRole::trained; });
  for (run::ModelTensor& tensor : tensors) tensor.value = adapters[tensor.name] = at::empty(tensor.shape, at::kFloat);
  source.restore(tensors);

  std::map<std::string, at::Tensor> bound;
  for (nn::Parameter* parameter : unet.parameters()) bound.emplace(parameter->name, parameter->value);
  const AdapterMerger merger(adapted, adapters);
  const AdapterBase read = read_base_weights(
      place, adapted, world,
      [&](const std::string& name, const at::Tensor& values) { bound.at(name).copy_(merger.merged(name, values)); });
  comm::agree(world, [&] { expect_same_base(remembered, read); });
  LoadedAdapters loaded{.unet = std::move(owned), .weights = {}, .base = read.path};
  for (const run::ModelTensor& tensor : tensors) loaded.weights.emplace_back(tensor.name, tensor.value);
  return loaded;
}

void fill(nn::UNet2D& unet, const SharedWeights& weights) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> bound;
  for (nn::Parameter* parameter : unet.parameters()) bound.emplace(parameter->name, parameter->value);
  weights.for_each([&](const std::string& name, const at::Tensor& values) { bound.at(name).copy_(values); });
}

LoadedModel load_diffusers(const base::Path& path, comm::Communicator& world, at::Device device,
                           const LoadOptions& options = {});

/// The regression in `folder`, that of a run or model.
void load_mean(LoadedModel& model, const base::Path& folder, comm::Communicator& world, at::Device device) {
  const base::Path path = folder / interop::kMeanFolder;
  auto mean = std::make_shared<LoadedModel>(load_diffusers(path, world, device));
  comm::agree(world, [&] {
    expect_regression(*mean, model.image, model.unet->config(), model.class_dropout.value_or(1.0), path.string());
  });
  model.mean = std::move(mean);
}

/// Has a model whose folder tells no size of its images draw images of `sides`.
void set_missing_size(nn::UNet2DConfig& config, const std::vector<int64_t>& sides, const base::Path& path) {
  if (sides.empty()) {
    throw base::OutputError(
        "{}: config.json has no sample_size that its model takes, so that the size of its images is not known; wanted: "
        "there a number, or height and width, that {} divides, or for ddpm sample --size HxW",
        path.string(), nn::size_multiple(config));
  }
  const std::string size = fmt::format("--size {}", fmt::join(sides, "x"));
  if (std::ssize(sides) != config.dimensions) {
    throw base::ConfigError("{}: images of {} have {} sides", size, path.string(), config.dimensions);
  }
  config.sample_size = sides;
  const std::string problem = nn::size_problem(config, nn::image_size(config));
  if (!problem.empty()) throw base::ConfigError("{}: {}", size, problem);
}

/// The names are those of classes that the model's table has.
void expect_known_names(const std::vector<std::string>& names, const nn::UNet2DConfig& config, const base::Path& path) {
  if (!has_class_table(config) || std::ssize(names) <= *config.num_class_embeds) return;
  throw base::OutputError("{}: class_names.json names {} classes; the model has {}", path.string(), names.size(),
                          *config.num_class_embeds);
}

/// normalization.json is of a model that draws as many channels, and has a class beside the null class.
void expect_drawn_channels(const LoadedModel& model, const std::string& origin) {
  const nn::UNet2DConfig& config = model.unet->config();
  const int64_t channels = InputCounts::of(model.image.fields, false).image;
  if (!model.image.fields.empty() && channels != config.out_channels) {
    throw base::OutputError("{}: its images have {}, but the model draws {}", origin,
                            base::counted(channels, "channel"), config.out_channels);
  }
  const double dropout = model.class_dropout.value_or(0.0);
  if (dropout > 0.0 && has_class_table(config) && null_class(config) < 1) {
    throw base::OutputError("{}: 'class_dropout' is {}, so that the last class is the null class; the model has 1",
                            origin, dropout);
  }
}

LoadedModel load_diffusers(const base::Path& path, comm::Communicator& world, at::Device device,
                           const LoadOptions& options) {
  LoadedModel model;
  comm::agree(world, [&] {
    nn::UNet2DConfig config = interop::read_model_config(path);
    const bool open = options.any_size && config.dimensions == 2;
    if (config.sample_size.empty() && !open) set_missing_size(config, options.sides, path);
    model.unet = std::make_unique<nn::UNet2D>(config);
  });
  // The files are opened first, so that a model that they do not hold takes no memory.
  const SharedWeights weights(path, expected_shapes(*model.unet), world);
  comm::agree(world, [&] { bind(*model.unet, device); });
  fill(*model.unet, weights);
  const base::Path pipeline = interop::pipeline_folder(path);
  const std::string origin = (pipeline / interop::kNormalizationName).string();
  std::optional<base::Json> normalization;
  comm::agree(world, [&] {
    const nn::UNet2DConfig& config = model.unet->config();
    const nn::ImageSize size = nn::image_size(config);
    model.image.height = size.height;
    model.image.width = size.width;
    model.image.depth = size.depth;
    const auto scheduler = interop::read_scheduler(path);
    model.scheduler = scheduler ? scheduler->json : base::Json::object();
    if (scheduler) model.scheduler_origin = scheduler->path.string();
    model.image.class_names = interop::read_class_names(path);
    expect_known_names(model.image.class_names, config, path);
    normalization = interop::read_normalization(path);
    if (normalization) {
      model.image.set_normalization(*normalization, origin);
      read_dropouts(*normalization, origin, model);
      expect_drawn_channels(model, origin);
    }
    expect_fitting(model.image, config, path.string());
  });
  model.description = "diffusers folder";
  if (comm::ask_root(world, [&] { return base::is_there(pipeline / interop::kMeanFolder); })) {
    load_mean(model, pipeline, world, device);
  }
  comm::do_on_root(world, [&] {
    if (normalization) expect_mean(*normalization, model.mean.get(), origin);
  });
  return model;
}

LoadedModel load_run(const run::FoundRun& place, const std::string& weights, const ReadRunModel& read_run,
                     const run::Runtime& runtime, at::Device device, const LoadOptions& options) {
  comm::Communicator& world = runtime.session.world();
  const base::Path& run = place.run;
  checkpoint::CheckpointStore store(runtime.files, world, run, runtime.log);
  const auto found = place.checkpoint ? std::optional(store.open(*place.checkpoint)) : store.find();
  LoadedModel model;
  bool has_mean = false;
  run::WeightChoice choice;
  run::PowerAverages power_averages;
  nn::LoraConfig lora;
  comm::agree(world, [&] {
    if (!found) run::refuse_without_checkpoint(run.string());
    const RunModel trained = read_run(run / checkpoint::kConfigName);
    has_mean = trained.has_mean;
    power_averages = trained.power_averages;
    choice = run::WeightChoice::of_run(weights, options.weights_option, trained.averages, run);
    const std::string origin = run::state_origin(*found);
    model.image = read_image_record(found->manifest.state, origin);
    nn::UNet2DConfig unet = trained.unet;
    lora = std::exchange(unet.lora, {});
    unet.sample_size = model_size(model.image.format(1, model.image.dtype));
    expect_fitting(model.image, trained.unet, origin);
    pad_with_zeros(unet, model.image.wraps);
    if (const int64_t count = InputCounts::of(model.image.fields, false).parameters; count > 0) {
      unet.num_parameters = count;
    }
    model.unet = std::make_unique<nn::UNet2D>(unet);
    bind(*model.unet, device);
    model.scheduler = diffusion::write_scheduler(trained.scheduler);
    model.scheduler_origin = (run / checkpoint::kConfigName).string();
    model.class_dropout = trained.class_dropout;
    model.condition_dropout = trained.condition_dropout;
    model.allow_tf32 = trained.allow_tf32;
  });
  const WeightSource source{choice, power_averages, store, *found, runtime.log};
  if (lora.rank > 0) {
    model.adapters = merge_adapters(*model.unet, lora, source, options.adapter_base, world);
  } else {
    source.restore(device.is_meta() ? std::vector<run::ModelTensor>{} : model_tensors(*model.unet));
  }
  if (has_mean) {
    load_mean(model, run, world, device);
    const std::string origin = run::state_origin(*found);
    comm::do_on_root(world, [&] { expect_mean(found->manifest.state, model.mean.get(), origin); });
  }
  model.checkpoint = {.run = run,
                      .manifest = found->directory / checkpoint::kManifestName,
                      .step = found->manifest.step,
                      .state = found->manifest.state,
                      .weights = choice};
  model.description = fmt::format("step {}, {} weights", found->manifest.step, choice.text());
  return model;
}

/// A model folder, with its weights or their averages.
LoadedModel load_folder(const base::Path& path, const std::string& weights, comm::Communicator& world,
                        at::Device device, const LoadOptions& options) {
  const std::string& option = options.weights_option;
  const std::string& said = options.weights_said;
  const WeightsAsked asked{.choice = weights,
                           .text = said.empty() ? fmt::format("{} {}", option, weights) : said,
                           .possible = fmt::format("{} raw or ema", option)};
  const bool averages = comm::ask_root(world, [&] { return folder_of_weights(path, asked) != path; });
  LoadedModel model = load_diffusers(averages ? path / interop::kAveragesFolder : path, world, device, options);
  model.averages = averages;
  const bool named_averages = averages || weights == run::kFirstAverage;
  if (named_averages || !weights.empty()) model.description += named_averages ? ", ema weights" : ", raw weights";
  return model;
}

/// Says what lies at `path` in place of a model.
[[noreturn]] void refuse(const base::Path& path, const base::Path& asked, const base::FileSystem& files) {
  const bool is_file = base::kind_of(path) == base::FileKind::regular;
  const base::Path around = base::parent_of(path);
  if (interop::is_peft_folder(is_file ? around : path)) {
    throw base::OutputError(
        "{}: adapters alone; wanted: the run that trained them, its model/, into which they are merged, or another "
        "model folder into which PEFT has merged them",
        asked.string());
  }
  if (is_file && (interop::is_model_folder(around) || run::look_for_run(files, around))) {
    throw base::OutputError("{}: is a file; wanted: the folder around it, {}", asked.string(), around.string());
  }
  if (is_file && path.extension() == ".safetensors") {
    throw base::OutputError("{}: weights alone; wanted: a model folder, whose config.json says what model they are of",
                            asked.string());
  }
  throw base::OutputError("{}: not a run, a checkpoint or a diffusers model folder (no {}, {}, {} or {}/{}){}",
                          asked.string(), checkpoint::kConfigName, checkpoint::kManifestName, interop::kUNetConfigName,
                          interop::kUNetFolder, interop::kUNetConfigName, interop::hub_hint(asked));
}

}  // namespace

LoadedModel load_model(const base::Path& asked, const std::string& weights, const ReadRunModel& read_run,
                       const run::Runtime& runtime, at::Device device, const LoadOptions& options) {
  comm::Communicator& world = runtime.session.world();
  const base::Path path = base::plain_path(std::filesystem::absolute(asked));
  const auto run = run::find_run(runtime.files, world, asked);
  const bool is_model = !(run && run->certain()) && comm::ask_root(world, [&] { return holds_weights(path); });
  if (run && !is_model) return load_run(*run, weights, read_run, runtime, device, options);
  comm::do_on_root(world, [&] {
    if (!is_model) refuse(path, asked, runtime.files);
  });
  return load_folder(path, weights, world, device, options);
}

}  // namespace ddpm::denoise
