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
  const int64_t greatest = *std::ranges::max_element(dataset.labels());
  if (greatest < null_class(model)) return;
  throw base::DatasetError(
      "{}: labels reach up to {}, but with diffusion.class_dropout the last class of model.num_class_embeds = {} is "
      "the null class; wanted: model.num_class_embeds = {}",
      dataset.path().string(), greatest, *model.num_class_embeds, greatest + 2);
}

}  // namespace ddpm::denoise
