#include "train/checkpoint_export.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/error.h"
#include "base/input_file.h"
#include "base/named.h"
#include "base/sole_writer.h"
#include "base/version.h"
#include "checkpoint/run_files.h"
#include "comm/collectives.h"
#include "denoise/adapter_base.h"
#include "denoise/load_model.h"
#include "diffusion/scheduler_json.h"
#include "interop/diffusers_reader.h"
#include "interop/diffusers_writer.h"
#include "interop/network_writer.h"
#include "interop/peft_adapter.h"
#include "run/snapshot.h"
#include "train/card.h"
#include "train/config.h"
#include "train/export_place.h"
#include "train/mean_source.h"

namespace ddpm::train {
namespace {

/// What a model folder says of a model beside its weights.
struct Description {
  interop::WrittenScheduler scheduler;
  base::Json normalization;
  interop::ModelCard card;
};

Description describe_checkpoint(const denoise::LoadedModel& model) {
  const denoise::CheckpointOrigin& origin = *model.checkpoint;
  Configuration configuration;
  read_run_configuration(origin.run / checkpoint::kConfigName, configuration);
  const Config& config = configuration.values();
  const CardFacts facts = read_card_facts(origin.state, origin.step, run::state_origin(origin.manifest));
  Description described{.scheduler = config.diffusion.scheduler,
                        .normalization = model.image.record_json(),
                        .card = card_of(configuration, origin.run, facts, origin.weights)};
  denoise::write_dropouts(model.unet->config(), model.image, config.diffusion, described.normalization);
  denoise::write_mean(model.mean.get(), described.normalization);
  return described;
}

/// A folder without a scheduler is taken for one with the defaults of diffusers' DDPMScheduler, as `ddpm sample` does.
interop::WrittenScheduler scheduler_of(const base::Path& folder) {
  const auto file = interop::read_scheduler(folder);
  if (!file) return diffusion::scheduler_defaults(diffusion::SamplerType::ddpm);
  const auto config = diffusion::read_scheduler(file->json, diffusion::SamplerType::ddpm, file->path.string());
  const std::string_view known = diffusion::scheduler_class(config.formulation);
  return {config, file->class_name.empty() ? std::string(known) : file->class_name, file->text};
}

Description describe_folder(const denoise::LoadedModel& model, const base::Path& folder) {
  return {
      .scheduler = scheduler_of(folder),
      .normalization = interop::read_normalization(folder).value_or(model.image.record_json()),
      .card = {.title = folder.filename().string(),
               .weights = model.averages ? "averages (unet_ema/) of a diffusers folder" : "those of a diffusers folder",
               .program_version = base::kVersion,
               .class_names = model.image.class_names}};
}

at::ScalarType scalar_type(ExportType type) {
  switch (type) {
    case ExportType::fp32:
      return at::kFloat;
    case ExportType::bf16:
      return at::kBFloat16;
    case ExportType::fp16:
      return at::kHalf;
  }
  throw base::InternalError("export type {}", static_cast<int>(type));
}

void write_folder(const denoise::LoadedModel& model, const base::Path& source, at::ScalarType dtype,
                  const base::Path& output, base::FileSystem& files) {
  const Description described = model.checkpoint ? describe_checkpoint(model) : describe_folder(model, source);
  const std::vector<interop::NamedTensor> weights = interop::weights_of(*model.unet);
  interop::WrittenModel written{.unet = model.unet->config(),
                                .scheduler = described.scheduler,
                                .weights = weights,
                                .normalization = described.normalization,
                                .card = described.card,
                                .dtype = dtype};
  if (!model.mean) return interop::write_diffusers_model(files, output, written);
  with_parts(*model.mean, [&](const interop::WrittenModel& mean) {
    written.mean = &mean;
    interop::write_diffusers_model(files, output, written);
  });
}

void write_adapters(const denoise::LoadedModel& model, const ExportRequest& request, base::FileSystem& files) {
  if (!model.adapters) {
    throw base::OutputError(
        "{}: it was not trained with adapters; wanted: a run with model.lora_rank, or another --format",
        request.source.string());
  }
  if (!nn::fits_diffusers(model.unet->config())) {
    throw base::OutputError(
        "{}: PEFT has no such adapters: the model is not a UNet2DModel of diffusers, for its periodic "
        "axes, volumes or parameters; wanted: another --format",
        request.source.string());
  }
  const denoise::LoadedAdapters& adapters = *model.adapters;
  const Description described = describe_checkpoint(model);
  interop::write_peft_adapter(files, request.output,
                              {.unet = *adapters.unet,
                               .weights = adapters.weights,
                               .base = adapters.base,
                               .formulation = described.scheduler.formulation,
                               .normalization = described.normalization,
                               .card = described.card,
                               .dtype = scalar_type(request.type)});
}

/// One file has the network alone.
void write_network(const denoise::LoadedModel& model, const ExportRequest& request, base::FileSystem& files) {
  if (model.mean) {
    throw base::OutputError(
        "{}: the model adds its answers to those of the regression in mean_model/, and a file as {} holds one network; "
        "wanted: --format diffusers, or mean_model/ as another export",
        request.source.string(), base::name_of(request.format));
  }
  const auto formulation = diffusion::formulation_of(model.scheduler, model.scheduler_origin);
  const interop::Network network{.unet = *model.unet,
                                 .whole_timesteps = interop::takes_whole_timesteps(model.unet->config(), formulation),
                                 .dtype = scalar_type(request.type)};
  request.format == ExportFormat::onnx ? interop::write_onnx(files, request.output, network)
                                       : interop::write_torchscript(files, request.output, network);
}

/// On rank 0; the other ranks have the model without its weights.
denoise::LoadedModel load_on_root(const base::Path& source, const std::string& weights, const run::Runtime& runtime,
                                  const denoise::LoadOptions& options = {}) {
  const bool root = runtime.session.world().rank() == 0;
  return denoise::load_model(source, weights, read_run_model, runtime, root ? at::kCPU : at::kMeta, options);
}

}  // namespace

std::string export_checkpoint(const ExportRequest& request, const run::Runtime& runtime) {
  comm::Communicator& world = runtime.session.world();
  std::optional<base::SoleWriter> sole;  // set on rank 0
  comm::do_on_root(world, [&] {
    expect_place(runtime.files, request.output);
    sole.emplace(runtime.files, request.output);
    expect_free(runtime.files, request.format, request.output);
    expect_apart(request.output, request.source, "what is exported");
  });
  const denoise::LoadedModel model =
      load_on_root(request.source, request.weights, runtime,
                   {.weights_said = request.weights_said, .adapter_base = request.adapter_base, .any_size = true});
  const base::Path source = base::plain_path(std::filesystem::absolute(request.source));
  comm::do_on_root(world, [&] {
    denoise::expect_use_of_base(request.adapter_base, model.adapters.has_value(), request.source);
    if (model.adapters) expect_apart(request.output, model.adapters->base, "the model that the adapters belong to");
    // Whatever the format: a model that nothing could sample from is none.
    static_cast<void>(diffusion::read_scheduler(model.scheduler, diffusion::SamplerType::ddpm, model.scheduler_origin));
    if (request.format == ExportFormat::peft) return write_adapters(model, request, runtime.files);
    if (request.format != ExportFormat::diffusers) return write_network(model, request, runtime.files);
    write_folder(model, source, scalar_type(request.type), request.output, runtime.files);
  });
  return model.description;
}

void export_best(const base::Path& checkpoint, const denoise::AdapterBase* adapter_base, const base::Path& output,
                 const run::Runtime& runtime) {
  denoise::LoadOptions options;
  if (adapter_base != nullptr) options.adapter_base = adapter_base->path;
  const denoise::LoadedModel model = load_on_root(checkpoint, "", runtime, options);
  comm::do_on_root(runtime.session.world(),
                   [&] { write_folder(model, checkpoint, at::kFloat, output, runtime.files); });
}

}  // namespace ddpm::train
