#include "denoise/mean_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "denoise/model_inputs.h"
#include "denoise/record_difference.h"
#include "diffusion/scheduler_json.h"

namespace ddpm::denoise {
namespace {

/// "sees 3 channels and 2 parameters with a class, and answers with 1 channel"
std::string described(const nn::UNet2DConfig& model) {
  return fmt::format("sees {} and {} {} a class, and answers with {}", base::counted(model.in_channels, "channel"),
                     base::counted(model.num_parameters.value_or(0), "parameter"),
                     nn::is_class_conditional(model) ? "with" : "without",
                     base::counted(model.out_channels, "channel"));
}

}  // namespace

at::Tensor mean_image(const LoadedModel& regression, const at::Tensor& like, const at::Tensor& beside,
                      const nn::Conditions& given, const nn::Partition& partition) {
  const at::NoGradGuard no_grad;
  const at::Tensor zeros = at::zeros_like(like, like.options().dtype(at::kFloat));
  const at::Tensor timesteps = at::zeros({like.size(0)}, like.options().dtype(at::kLong));
  return regression.unet->forward(model_input(zeros, beside), timesteps, given, nn::RandomContext{}, partition);
}

ModelBatch without_mean(const LoadedModel& regression, ModelBatch batch, const nn::Partition& partition) {
  batch.x0 = batch.x0 - mean_image(regression, batch.x0, batch.beside, batch.conditions, partition);
  if (batch.valid.defined()) batch.x0 = at::where(batch.valid, batch.x0, at::zeros({}, batch.x0.options()));
  return batch;
}

void expect_regression(diffusion::Formulation formulation, const std::string& origin) {
  if (formulation == diffusion::Formulation::regression) return;
  throw base::OutputError("{}: its formulation is {}; wanted: regression", origin, base::name_of(formulation));
}

void expect_regression(const LoadedModel& regression, const ImageRecord& record, const nn::UNet2DConfig& model,
                       double class_dropout, const std::string& origin) {
  expect_regression(diffusion::formulation_of(regression.scheduler, origin), origin);
  const nn::UNet2DConfig& mean = regression.unet->config();
  if (mean.in_channels != model.in_channels || mean.out_channels != model.out_channels ||
      mean.num_parameters != model.num_parameters ||
      nn::is_class_conditional(mean) != nn::is_class_conditional(model)) {
    throw base::OutputError("{}: the regression {}; the model {}; wanted: the same of both", origin, described(mean),
                            described(model));
  }
  const int64_t classes = model.num_class_embeds.value_or(0);
  const int64_t known = mean.num_class_embeds.value_or(0);
  const bool lacks_null = known == classes - 1 && class_dropout > 0.0;
  if (mean.class_embed_type != model.class_embed_type || (known != classes && !lacks_null)) {
    throw base::OutputError(
        "{}: the regression has a table of {} classes, the model one of {}; wanted: as many, or with "
        "diffusion.class_dropout one less, since the model's last one is the null class then",
        origin, known, classes);
  }
  if (regression.image.sides() != record.sides()) {
    throw base::OutputError("{}: the regression was trained on images, or windows, of {}; wanted: {}, as the model's",
                            origin, fmt::join(regression.image.sides(), " × "), fmt::join(record.sides(), " × "));
  }
  const std::string differs = difference(regression.image, record);
  if (!differs.empty()) {
    throw base::OutputError(
        "{}: the regression was trained on other fields, or with other transforms, than the model's training set "
        "has: {}",
        origin, differs);
  }
  const std::string problem =
      nn::size_problem(mean, {.height = record.height, .width = record.width, .depth = record.depth});
  if (!problem.empty()) throw base::OutputError("{}: {}", origin, problem);
}

}  // namespace ddpm::denoise
