#include "denoise/model_fit.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"

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
}

}  // namespace

nn::UNet2DConfig fit_model(const nn::UNet2DConfig& model, const data::Dataset& dataset) {
  const std::string path = dataset.path().string();
  const data::ImageFormat image = dataset.image();
  if (model.in_channels != image.channels || model.out_channels != image.channels) {
    throw base::DatasetError(
        "{}: images have {}, but model.in_channels = {} and model.out_channels = {}: all three must agree", path,
        base::counted(image.channels, "channel"), model.in_channels, model.out_channels);
  }
  std::vector<int64_t> wanted = model.sample_size;
  if (wanted.size() == 1) wanted.push_back(wanted.front());
  if (!wanted.empty() && (wanted[0] != image.height || wanted[1] != image.width)) {
    throw base::DatasetError("{}: images are {} × {} (height × width), but model.sample_size = {}", path, image.height,
                             image.width, fmt::join(model.sample_size, " × "));
  }
  const std::string problem = nn::size_problem(model, image.height, image.width);
  if (!problem.empty()) throw base::DatasetError("{}: {}", path, problem);
  fit_labels(model, dataset);
  nn::UNet2DConfig fitted = model;
  fitted.sample_size = {image.height};
  if (image.width != image.height) fitted.sample_size.push_back(image.width);
  return fitted;
}

}  // namespace ddpm::denoise
