#include "denoise/loaded_model.h"

#include <algorithm>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/json_fields.h"
#include "denoise/null_class.h"
#include "denoise/weight_digest.h"
#include "interop/unet_json.h"
#include "interop/written_model.h"

namespace ddpm::denoise {
namespace {

constexpr const char* kMean = "mean_model_sha256";
constexpr const char* kClassDropout = "class_dropout";
constexpr const char* kConditionDropout = "condition_dropout";

bool gives_conditions(const nn::UNet2DConfig& unet, const ImageRecord& image) {
  if (unet.num_parameters) return true;
  return std::ranges::any_of(image.fields,
                             [](const data::Field& field) { return field.role == data::FieldRole::condition; });
}

/// Over the weights as float32, as which they are stored.
std::string digest_of_values(const LoadedModel& model) {
  WeightDigest digest;
  for (const nn::Parameter* parameter : model.unet->parameters()) {
    digest.add(parameter->name, parameter->value.to(at::kCPU, at::kFloat));
  }
  return digest.hex();
}

}  // namespace

void prepare_for_sampling(LoadedModel& model, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  for (nn::Parameter* parameter : model.unet->parameters()) {
    if (parameter->role != base::ParameterRole::constant) parameter->value = parameter->value.to(dtype);
  }
  model.dtype = dtype;
  model.unet->prepare_for_inference();
}

void write_mean(const LoadedModel* mean, base::Json& record) {
  if (mean != nullptr) record[kMean] = digest_of_values(*mean);
}

void expect_mean(const base::Json& record, const LoadedModel* mean, const std::string& origin) {
  const base::JsonFields values(record, origin, {}, base::JsonFields::Others::ignored);
  if (!values.has(kMean)) return;
  const std::string& wanted = values.text(kMean);
  if (mean == nullptr) {
    throw base::OutputError("{}: samples are added to the answers of a regression, but {}/ beside it is gone", origin,
                            interop::kMeanFolder);
  }
  const std::string seen = digest_of_values(*mean);
  if (seen == wanted) return;
  throw base::OutputError(
      "{}: samples are added to the answers of a regression whose weights have SHA-256 {}; in {}/ "
      "are others: {}",
      origin, wanted, interop::kMeanFolder, seen);
}

void write_dropouts(const nn::UNet2DConfig& unet, const ImageRecord& image, const diffusion::DiffusionConfig& config,
                    base::Json& normalization) {
  if (has_class_table(unet)) normalization[kClassDropout] = config.class_dropout;
  if (gives_conditions(unet, image)) normalization[kConditionDropout] = config.condition_dropout;
}

void read_dropouts(const base::Json& normalization, const std::string& origin, LoadedModel& model) {
  const base::JsonFields values(normalization, origin, {}, base::JsonFields::Others::ignored);
  model.class_dropout = class_dropout_in(normalization, origin);
  if (values.has(kConditionDropout)) model.condition_dropout = values.number(kConditionDropout, 0.0, 1.0);
}

std::optional<double> class_dropout_in(const base::Json& normalization, const std::string& origin) {
  const base::JsonFields values(normalization, origin, {}, base::JsonFields::Others::ignored);
  return values.has(kClassDropout) ? std::optional(values.number(kClassDropout, 0.0, 1.0)) : std::nullopt;
}

std::string digest_of_weights(const LoadedModel& model) {
  WeightDigest digest;
  digest.add_text("unet " + interop::unet_to_json(model.unet->config()).dump());
  for (const nn::Parameter* parameter : model.unet->parameters()) digest.add(parameter->name, parameter->value);
  if (model.mean) digest.add_text("mean " + digest_of_weights(*model.mean));
  return digest.hex();
}

}  // namespace ddpm::denoise
