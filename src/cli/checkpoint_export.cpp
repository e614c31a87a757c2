#include "cli/checkpoint_export.h"

#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/named.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "optim/post_hoc.h"
#include "run/weight_choice.h"
#include "train/checkpoint_export.h"

namespace ddpm::cli {
namespace {

using train::ExportFormat;
using train::ExportType;

struct ExportArguments {
  std::string path;
  std::string weights;
  std::optional<double> ema_length;
  std::optional<ExportFormat> format;
  ExportType dtype = ExportType::fp32;
  base::Path output;
  std::optional<std::string> adapter_base;
  bool json = false;
};

std::string weights_of(const ExportArguments& arguments) {
  if (!arguments.ema_length) return arguments.weights;
  if (!arguments.weights.empty()) {
    throw base::ConfigError("--ema-length {} and --weights {}: one of both is wanted", *arguments.ema_length,
                            arguments.weights);
  }
  return run::WeightChoice{.relative_length = arguments.ema_length}.text();
}

/// The format of the files that are named so; none for a name that says nothing.
std::optional<ExportFormat> format_by_name(const base::Path& output) {
  const base::Path ending = output.extension();
  if (ending == ".onnx") return ExportFormat::onnx;
  if (ending == ".pt" || ending == ".ts") return ExportFormat::torchscript;
  return std::nullopt;
}

ExportFormat format_of(const ExportArguments& arguments) {
  const std::optional<ExportFormat> named = format_by_name(arguments.output);
  if (!arguments.format) return named.value_or(ExportFormat::diffusers);
  if (!named || named == arguments.format) return *arguments.format;
  throw base::ConfigError("--format {} and --output {}, which is the name of a file as {}; wanted: another name, or {}",
                          base::name_of(*arguments.format), arguments.output.string(), base::name_of(*named),
                          base::name_of(*named));
}

void run_export(Context& context, const ExportArguments& arguments) {
  const auto& length = arguments.ema_length;
  train::ExportRequest request{.source = arguments.path,
                               .weights = {},
                               .weights_said = length ? fmt::format("--ema-length {}", *length) : "",
                               .type = arguments.dtype,
                               .output = base::plain_path(std::filesystem::absolute(arguments.output)),
                               .adapter_base = arguments.adapter_base};
  comm::agree(context.session.world(), [&] {
    request.weights = weights_of(arguments);
    request.format = format_of(arguments);
  });
  context.enter("exporting the model");
  const std::string exported = train::export_checkpoint(request, context);
  if (!arguments.json) {
    return print(context, fmt::format("{}: {} of {} as {}, {}", request.output.string(), exported, arguments.path,
                                      base::name_of(request.format), base::name_of(arguments.dtype)));
  }
  print(context, dump({{"source", arguments.path},
                       {"weights", exported},
                       {"format", base::name_of(request.format)},
                       {"dtype", base::name_of(arguments.dtype)},
                       {"output", request.output.string()}}));
}

}  // namespace

void add_export_command(const Subcommand& parent, Command& command) {
  const Subcommand exporter = parent.add_subcommand(
      "export", "Write a model as a diffusers folder, a TorchScript or an ONNX file, or its adapters for PEFT");
  auto arguments = std::make_shared<ExportArguments>();
  exporter
      .add("DIR", &arguments->path, "A run (its newest valid checkpoint), a checkpoint, or a diffusers model folder")
      .required();
  exporter.add("--format", &arguments->format,
               "What to write; otherwise as --output ends (.onnx, or .pt and .ts for torchscript), or diffusers");
  exporter
      .add("--output", &arguments->output,
           "The folder (diffusers, peft) or file; an earlier export of the format is replaced")
      .required();
  exporter.add("--weights", &arguments->weights, kWeightsHelp);
  exporter
      .add("--ema-length", &arguments->ema_length,
           "In place of --weights (length:S): the average of this relative length, made of all checkpoints of a run "
           "with the key ema.relative_lengths")
      .accept(NumberRange{optim::kLeastLength, optim::kGreatestLength});
  exporter.add("--base", &arguments->adapter_base, kBaseHelp);
  exporter
      .add("--dtype", &arguments->dtype, "Type of the weights, rounded to the nearest even; onnx computes in float32")
      .show_default();
  add_json_flag(exporter, arguments->json);
  exporter.footer(
      "A diffusers folder is what RUN/model is, of any checkpoint and average. TorchScript and ONNX files run without\n"
      "ddpm and diffusers: their inputs are sample [N, C, H, W] and timestep [N], and class_labels and parameters if\n"
      "the model has them, and their output is float32. docs/export.md says how each is loaded.");
  exporter.on_chosen(
      [&command, arguments] { command.run = [arguments](Context& context) { run_export(context, *arguments); }; });
}

}  // namespace ddpm::cli
