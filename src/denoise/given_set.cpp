#include "denoise/given_set.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "denoise/file_reading.h"
#include "denoise/null_class.h"
#include "denoise/same_meaning.h"
#include "denoise/sample_mask.h"

namespace ddpm::denoise {
namespace {

using data::FieldRole;

/// The roles whose values a dataset gives to sampling.
constexpr std::array kGivenRoles = {FieldRole::condition, FieldRole::static_values, FieldRole::parameters};

/// Whether conditions have the images' own size.
bool is_as_fine(const std::vector<data::Field>& fields) {
  const data::Field* images = field_of(fields, FieldRole::image);
  const data::Field* condition = field_of(fields, FieldRole::condition);
  return images != nullptr && condition != nullptr && images->format().sides() == condition->format().sides();
}

/// The shape that a field of the training set has beside the images that are drawn, which may be of another size.
std::vector<int64_t> shape_beside(const data::Field& field, const ImageRecord& image) {
  if (field.role == FieldRole::parameters) return field.shape;
  const int64_t times = field_of(image.fields, FieldRole::image)->format().width / field.format().width;
  std::vector<int64_t> shape = image.sides();
  for (int64_t& side : shape) {
    if (side % times != 0) {
      throw base::ConfigError("--size: images of {} have no {} that is {} times coarser; wanted: multiples of {}",
                              fmt::join(image.sides(), "x"), base::name_of(field.role), times, times);
    }
    side /= times;
  }
  shape.push_back(field.format().channels);
  return shape;
}

/// What helps where a set gives whole images, and the model draws windows of them; "" where that is not so.
std::string size_hint(const data::Field& trained, const data::Field* seen, const std::vector<int64_t>& wanted,
                      const ImageRecord& image) {
  const std::vector<int64_t> whole = image.whole_sides();
  if (seen == nullptr || !data::is_like_image(trained.role) || whole.empty() || whole == image.sides()) return "";
  const bool larger = seen->shape.size() == wanted.size() && seen->shape.back() == wanted.back() &&
                      seen->shape != wanted && std::ranges::equal(seen->shape, wanted, std::ranges::greater_equal());
  if (!larger) return "";
  const int64_t times = whole.back() / trained.format().width;
  std::vector<int64_t> sides = seen->format().sides();
  for (int64_t& side : sides) side *= times;
  return fmt::format("; wanted: --size {}", fmt::join(sides, "x"));
}

/// Whether the variables have names of their own, not those that a file without names gets.
bool is_named(const data::Field& field) {
  const data::Field plain = data::make_field(field.role, field.path, field.shape, field.dtype, field.per_set);
  return !std::ranges::equal(field.variables, plain.variables, [](const auto& one, const auto& other) {
    return one.name == other.name && one.unit == other.unit;
  });
}

/// The labels of a dataset must be classes of the model.
void expect_known_labels(const data::Dataset& dataset, const nn::UNet2DConfig& unet) {
  if (!has_class_table(unet) || dataset.labels().empty()) return;
  const auto [least, greatest] = std::ranges::minmax_element(dataset.labels());
  if (*least >= 0 && *greatest < *unet.num_class_embeds) return;
  throw base::DatasetError("{}: labels reach from {} to {}; the model has classes 0 to {}", dataset.path().string(),
                           *least, *greatest, *unet.num_class_embeds - 1);
}

}  // namespace

std::vector<data::Field> given_fields(const std::vector<data::Field>& trained) {
  std::vector<data::Field> given;
  std::ranges::copy_if(trained, std::back_inserter(given), [](const data::Field& field) {
    return std::ranges::find(kGivenRoles, field.role) != kGivenRoles.end();
  });
  return given;
}

data::DatasetOptions reading_of_given(const LoadedModel& model, bool labelled) {
  const ImageRecord& record = model.image;
  const std::vector<data::Field>& trained = record.fields;
  data::DatasetOptions options;
  if (!record.reading.variables.empty()) {
    options = reading_of_conditions(record.reading, is_as_fine(trained));
    if (!labelled) options.labels = "";
    return options;
  }
  const auto path = [&](FieldRole role) {
    const data::Field* field = field_of(trained, role);
    return field == nullptr ? std::string() : field->path;
  };
  if (const data::Field* images = field_of(trained, FieldRole::image)) options.images = images->path;
  const std::string labels = trained.empty() ? record.labels : path(FieldRole::labels);
  if (!labelled || !labels.empty()) options.labels = labelled ? labels : "";
  options.condition = path(FieldRole::condition);
  options.static_values = path(FieldRole::static_values);
  options.parameters = path(FieldRole::parameters);
  options.mask = mask_to_read(record);
  options.mask_use = data::MaskUse::optional;
  options.absent_images = record.format(model.unet->config().out_channels, base::DType::f32).shape();
  return options;
}

void expect_like_trained(const data::Dataset& dataset, const LoadedModel& model, bool labelled) {
  const std::string path = dataset.path().string();
  const HeldAgainst sets{.set = dataset, .asked = "--condition", .trained = "the training set"};
  for (const FieldRole role : kGivenRoles) {
    const data::Field* trained = field_of(model.image.fields, role);
    const data::Field* seen = field_of(dataset.info().fields, role);
    if (trained == nullptr && seen == nullptr) continue;
    if (trained == nullptr) {
      throw base::DatasetError("{}: has a field of role {}, which the model does not take", path, base::name_of(role));
    }
    const std::vector<int64_t> wanted = shape_beside(*trained, model.image);
    if (seen == nullptr || seen->shape != wanted || seen->dtype != trained->dtype) {
      throw base::DatasetError(
          "{}: {}; the model takes [{}] of {}{}", path,
          seen == nullptr ? fmt::format("has no field of role {}", base::name_of(role))
                          : fmt::format("its field of role {} is [{}] of {}", base::name_of(role),
                                        fmt::join(seen->shape, ", "), data::numpy_name(seen->dtype)),
          fmt::join(wanted, ", "), data::numpy_name(trained->dtype), size_hint(*trained, seen, wanted, model.image));
    }
    if (is_named(*trained) && is_named(*seen)) expect_same_variables(sets, *seen, *trained, VariableRule::names);
  }
  if (labelled) {
    expect_known_labels(dataset, model.unet->config());
    expect_same_classes(sets, model.image.class_names);
  }
  if (!gives_masks(model.image, &dataset) && model.unet->config().in_channels == model.unet->config().out_channels)
    return;
  if (dataset.image().sides() == model.image.sides()) return;
  throw base::DatasetError("{}: what it gives is for images of {}; those that are drawn are {}", path,
                           data::size_text(dataset.image()), fmt::join(model.image.sides(), " × "));
}

}  // namespace ddpm::denoise
