#include "denoise/null_class.h"

#include <algorithm>

#include "base/error.h"

namespace ddpm::denoise {

bool has_class_table(const nn::UNet2DConfig& model) {
  return model.num_class_embeds.has_value() && !model.class_embed_type.has_value();
}

int64_t null_class(const nn::UNet2DConfig& model) { return model.num_class_embeds.value() - 1; }

void expect_room_for_null_class(const nn::UNet2DConfig& model, const data::Dataset& dataset) {
  if (dataset.labels().empty()) return;
  const int64_t classes = dataset.num_classes();
  if (classes <= null_class(model)) return;
  throw base::DatasetError(
      "{}: has {} classes, but with diffusion.class_dropout the last one of model.num_class_embeds = {} is the null "
      "class; wanted: model.num_class_embeds = {}",
      dataset.path().string(), classes, *model.num_class_embeds, classes + 1);
}

void expect_no_null_class(const nn::UNet2DConfig& model, const data::Dataset& dataset, const std::string& option) {
  if (std::ranges::count(dataset.labels(), null_class(model)) == 0) return;
  throw base::DatasetError("{}: holds the label {}, the null class itself, which {} cannot push away from",
                           dataset.path().string(), null_class(model), option);
}

}  // namespace ddpm::denoise
