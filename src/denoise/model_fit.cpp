#include "denoise/model_fit.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "denoise/model_inputs.h"
#include "denoise/null_class.h"
#include "denoise/timestep_fit.h"

namespace ddpm::denoise {
namespace {

void fit_labels(const nn::UNet2DConfig& model, const data::Dataset& dataset) {
  const std::string path = dataset.path().string();
  const bool conditional = nn::is_class_conditional(model);
  if (dataset.labels().empty()) {
    if (conditional) throw base::DatasetError("{}: the model has a class embedding, but the set has no labels", path);
    return;
  }
  if (!conditional) {
    throw base::DatasetError(
        "{}: the set has labels, but the model has no class embedding: set model.num_class_embeds = {}, or "
        "data.labels = \"\" to train without them",
        path, dataset.num_classes());
  }
  const auto [least, greatest] = std::ranges::minmax_element(dataset.labels());
  if (model.num_class_embeds && (*least < 0 || *greatest >= *model.num_class_embeds)) {
    throw base::DatasetError("{}: labels reach from {} to {}, but model.num_class_embeds = {} allows 0 to {}", path,
                             *least, *greatest, *model.num_class_embeds, *model.num_class_embeds - 1);
  }
  if (has_class_table(model) && dataset.num_classes() > *model.num_class_embeds) {
    throw base::DatasetError("{}: names {} classes, but model.num_class_embeds = {}; wanted: {}", path,
                             dataset.num_classes(), *model.num_class_embeds, dataset.num_classes());
  }
  for (const int64_t label : {*least, *greatest}) {
    const std::string problem = label_problem(model, label);
    if (!problem.empty()) throw base::DatasetError("{}: {}", path, problem);
  }
}

/// The model sees the channels of all that is given with an image, and predicts those of the image.
void fit_channels(const nn::UNet2DConfig& model, const InputCounts& inputs, const std::string& path) {
  const int64_t channels = inputs.channels();
  if (model.in_channels == channels && model.out_channels == inputs.image) return;
  if (channels == inputs.image) {
    throw base::DatasetError(
        "{}: images have {}, but model.in_channels = {} and model.out_channels = {}: all three must agree", path,
        base::counted(inputs.image, "channel"), model.in_channels, model.out_channels);
  }
  throw base::DatasetError(
      "{}: the model sees {} ({}) and predicts {}, but model.in_channels = {} and "
      "model.out_channels = {}: wanted {} and {}",
      path, base::counted(channels, "channel"), inputs.text(), inputs.image, model.in_channels, model.out_channels,
      channels, inputs.image);
}

void fit_parameters(const nn::UNet2DConfig& model, int64_t parameters, const std::string& path) {
  if (!model.num_parameters || *model.num_parameters == parameters) return;
  throw base::DatasetError("{}: the set has {} for each image, but model.num_parameters = {}", path,
                           base::counted(parameters, "parameter"), *model.num_parameters);
}

}  // namespace

std::vector<int64_t> model_size(const data::ImageFormat& image) {
  if (image.depth == 0 && image.width == image.height) return {image.height};
  return image.sides();
}

nn::UNet2DConfig fit_model(const nn::UNet2DConfig& model, const data::Dataset& dataset, bool positions,
                           const Patch& patch) {
  const std::string path = dataset.path().string();
  const data::ImageFormat& image = patch.window;
  const std::string seen = patch.cuts() ? path + ": with data.patch" : path;
  const InputCounts inputs = InputCounts::of(dataset.info().fields, positions);
  fit_channels(model, inputs, path);
  fit_parameters(model, inputs.parameters, path);
  if ((model.dimensions == 3) != (image.depth > 0)) {
    throw base::DatasetError("{}: it holds {} of {}, but model.dimensions = {}", path,
                             image.depth > 0 ? "volumes" : "flat images", data::size_text(dataset.image()),
                             model.dimensions);
  }
  const nn::ImageSize size{.height = image.height, .width = image.width, .depth = image.depth};
  if (!model.sample_size.empty() && nn::image_size(model) != size) {
    throw base::DatasetError(
        "{}: images are {} ({}height × width), but model.sample_size = {}; wanted: "
        "images of that size, or, to train at theirs, model.sample_size = [{}]",
        seen, data::size_text(image), image.depth > 0 ? "depth × " : "", fmt::join(model.sample_size, " × "),
        fmt::join(image.sides(), ", "));
  }
  const std::string problem = nn::size_problem(model, size);
  if (!problem.empty()) throw base::DatasetError("{}: {}", seen, problem);
  fit_labels(model, dataset);
  nn::UNet2DConfig fitted = model;
  fitted.sample_size = model_size(image);
  if (inputs.parameters > 0) fitted.num_parameters = inputs.parameters;
  pad_with_zeros(fitted, patch.wraps);
  return fitted;
}

void expect_record_of(const nn::UNet2DConfig& model, const ImageRecord& record) {
  if (model.out_channels > model.in_channels) {
    throw base::OutputError(
        "the model sees {} and answers with {}; wanted: as many of each as its images have, without a learned variance",
        base::counted(model.in_channels, "channel"), model.out_channels);
  }
  const InputCounts counts = InputCounts::of(record.fields, record.positions);
  const int64_t known = record.fields.empty() ? model.out_channels + counts.positions : counts.channels();
  if (model.in_channels != known) {
    throw base::OutputError(
        "the model sees {}, but only {} of its record say what they are; wanted: a run of this program, or its "
        "model folder with normalization.json",
        base::counted(model.in_channels, "channel"), known);
  }
  if (!record.fields.empty() && counts.parameters != model.num_parameters.value_or(0)) {
    throw base::OutputError(
        "the model is given {} with each image, but its record says {}; wanted: the normalization.json that was "
        "written with it",
        base::counted(model.num_parameters.value_or(0), "number"), counts.parameters);
  }
}

}  // namespace ddpm::denoise
