#include "cli/checkpoint_export.h"

#include <memory>
#include <string>

#include "base/named.h"
#include "cli/output.h"
#include "train/checkpoint_export.h"

namespace ddpm::cli {
namespace {

using train::ExportFormat;
using train::ExportType;

struct ExportArguments {
  std::string path;
  std::string weights;
  std::string format{base::name_of(ExportFormat::diffusers)};
  std::string dtype{base::name_of(ExportType::fp32)};
  base::Path output;
  bool json = false;
};

void run_export(Context& context, const ExportArguments& arguments) {
  const train::ExportRequest request{.source = arguments.path,
                                     .weights = arguments.weights,
                                     .format = *base::find_named<ExportFormat>(arguments.format),
                                     .type = *base::find_named<ExportType>(arguments.dtype),
                                     .output = base::plain_path(std::filesystem::absolute(arguments.output))};
  context.enter("exporting the model");
  const std::string exported = train::export_checkpoint(request, context);
  if (!arguments.json) {
    return print(context, fmt::format("{}: {} of {} as {}, {}", request.output.string(), exported, arguments.path,
                                      arguments.format, arguments.dtype));
  }
  print(context, dump({{"source", arguments.path},
                       {"weights", exported},
                       {"format", arguments.format},
                       {"dtype", arguments.dtype},
                       {"output", request.output.string()}}));
}

}  // namespace

void add_export_command(const Subcommand& parent, Command& command) {
  const Subcommand exporter =
      parent.add_subcommand("export", "Write a model as a diffusers folder, a TorchScript file or an ONNX file");
  auto arguments = std::make_shared<ExportArguments>();
  exporter
      .add("DIR", &arguments->path, "A run (its newest valid checkpoint), a checkpoint, or a diffusers model folder")
      .required();
  exporter.add("--format", &arguments->format, "What to write")
      .accept(OneOf{base::all_names<ExportFormat>()})
      .show_default();
  exporter
      .add("--output", &arguments->output,
           "The folder (diffusers) or file; an earlier export of the format is replaced")
      .required();
  exporter.add("--weights", &arguments->weights, "raw, ema or ema:I; the first average where there is one");
  exporter
      .add("--dtype", &arguments->dtype, "Type of the weights, rounded to the nearest even; onnx computes in float32")
      .accept(OneOf{base::all_names<ExportType>()})
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
