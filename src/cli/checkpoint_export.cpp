#include "cli/checkpoint_export.h"

#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/named.h"
#include "cli/adapter_base_option.h"
#include "cli/output.h"
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
  ExportFormat format = ExportFormat::diffusers;
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

void run_export(Context& context, const ExportArguments& arguments) {
  const train::ExportRequest request{.source = arguments.path,
                                     .weights = weights_of(arguments),
                                     .format = arguments.format,
                                     .type = arguments.dtype,
                                     .output = base::plain_path(std::filesystem::absolute(arguments.output)),
                                     .adapter_base = arguments.adapter_base};
  context.enter("exporting the model");
  const std::string exported = train::export_checkpoint(request, context);
  if (!arguments.json) {
    return print(context, fmt::format("{}: {} of {} as {}, {}", request.output.string(), exported, arguments.path,
                                      base::name_of(arguments.format), base::name_of(arguments.dtype)));
  }
  print(context, dump({{"source", arguments.path},
                       {"weights", exported},
                       {"format", base::name_of(arguments.format)},
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
  exporter.add("--format", &arguments->format, "What to write").show_default();
  exporter
      .add("--output", &arguments->output,
           "The folder (diffusers, peft) or file; an earlier export of the format is replaced")
      .required();
  exporter.add("--weights", &arguments->weights, "raw, ema, ema:I or length:S; the first average where there is one");
  exporter.add("--ema-length", &arguments->ema_length,
               "In place of --weights (length:S): the average of this relative length, made of all checkpoints of a "
               "run with the key ema.relative_lengths");
  exporter.add("--base", &arguments->adapter_base, kBaseHelp);
  exporter
      .add("--dtype", &arguments->dtype, "Type of the weights, rounded to the nearest even; onnx computes in float32")
      .show_default();
  exporter.add_flag("--json", arguments->json, "Print the result as one JSON object");
  exporter.footer(
      "A diffusers folder is what RUN/model is, of any checkpoint and average. TorchScript and ONNX files run without\n"
      "ddpm and diffusers: their inputs are sample [N, C, H, W] and timestep [N], and class_labels and parameters if\n"
      "the model has them, and their output is float32. docs/export.md says how each is loaded.");
  exporter.on_chosen(
      [&command, arguments] { command.run = [arguments](Context& context) { run_export(context, *arguments); }; });
}

}  // namespace ddpm::cli
