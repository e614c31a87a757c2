#include "denoise/model_inputs.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include "denoise/positions.h"
#include "denoise/upsample.h"
#include "device/scalar_type.h"
#include "diffusion/noise.h"

namespace ddpm::denoise {
namespace {

using data::FieldRole;

/// Whether the condition of each position is kept.
at::Tensor kept_conditions(const StoredBatch& batch, const Augmentation& augmentation) {
  const diffusion::Draws draws{augmentation.seed, batch.step_on_device, batch.positions.begin, batch.positions.size()};
  return draws.uniforms(base::Stream::condition_dropout) >= augmentation.condition_dropout;
}

}  // namespace

InputCounts InputCounts::of(const std::vector<data::Field>& fields, bool positions) {
  InputCounts counts{.positions = positions ? 4 : 0};
  for (const data::Field& field : fields) {
    const auto variables = std::ssize(field.variables);
    if (field.role == FieldRole::image) {
      counts.image = variables;
      if (positions && field.format().depth > 0) counts.positions = 6;
    }
    if (field.role == FieldRole::condition) counts.condition = variables;
    if (field.role == FieldRole::static_values) counts.static_values = variables;
    if (field.role == FieldRole::parameters) counts.parameters = variables;
  }
  return counts;
}

std::string InputCounts::text() const {
  std::vector<std::string> parts = {fmt::format("image {}", image)};
  if (condition > 0) parts.push_back(fmt::format("condition {}", condition));
  if (static_values > 0) parts.push_back(fmt::format("static {}", static_values));
  if (positions > 0) parts.push_back(fmt::format("positions {}", positions));
  return fmt::format("{}", fmt::join(parts, " + "));
}

/// What the model is shown of the images of a batch, and alike of all that belongs to them: a window of each, mirrored
/// and turned as was drawn.
class ModelInputs::View {
 public:
  /// Whole images, none of which is mirrored.
  View() = default;
  View(const StoredBatch& batch, const std::optional<Augmentation>& augmentation, const ModelInputs& inputs)
      : step_(batch.step_on_device), first_(batch.positions.begin) {
    const Windows& windows = inputs.windows_;
    if (windows.cuts()) pixels_ = windows.pixels(step_, batch.positions);
    if (!augmentation || !augmentation->turns()) return;
    // Mirrors left and right are made by the pass that normalises.
    flips_ = !augmentation->vertical_flip && !augmentation->quarter_turns && !inputs.has_vectors_;
    seed_ = static_cast<int64_t>(augmentation->seed);
    if (flips_) return;
    turns_ = Turns::draw(*augmentation, step_, batch.positions);
    const data::ImageFormat& image = inputs.image_;
    if (!windows.cuts())
      pixels_ = at::arange(image.pixels(), turns_->transposed.options().dtype(at::kLong))
                    .view({1, image.rows(), image.width});
    pixels_ = turns_->pixels(pixels_, windows.cuts() ? windows.height() : image.height);
  }

  [[nodiscard]] bool moves_pixels() const { return pixels_.defined(); }
  /// The view of values that were read at these places of whole ones: int64 [n, rows, width].
  static View of_parts(at::Tensor places) {
    View parts;
    parts.places_ = std::move(places);
    return parts;
  }
  /// The view of a batch that holds windows already.
  [[nodiscard]] View of_windows(const ModelInputs& inputs) const {
    View inside = *this;
    inside.places_ = pixels_;
    inside.pixels_ = at::Tensor();
    if (!turns_) return inside;
    const std::vector<int64_t> sides = inputs.windows_.sides();
    int64_t count = 1;
    for (const int64_t side : sides) count *= side;
    const at::Tensor pixels = at::arange(count, turns_->transposed.options().dtype(at::kLong));
    inside.pixels_ = turns_->pixels(pixels.view({1, -1, sides.back()}), inputs.windows_.height());
    return inside;
  }

  /// The windows of values [n, h, w, c]; of [1, h, w, c] those of all images.
  [[nodiscard]] at::Tensor windows(const at::Tensor& values) const {
    return moves_pixels() ? cut(values, pixels_) : values;
  }
  /// What belongs to the points of every image [1, h, w, c], where the n images show it: float32 [n, c, h, w], or
  /// [1, c, h, w] of all alike.
  [[nodiscard]] at::Tensor placed(const at::Tensor& points, int64_t n) const {
    const at::Tensor& places = places_.defined() ? places_ : pixels_;
    const at::Tensor seen = places.defined() ? cut(points, places) : points;
    return flips_ ? mirrored(seen.expand({n, -1, -1, -1}).contiguous(), {}) : seen.permute({0, 3, 1, 2});
  }
  /// Stored values [n, ..., c], where vectors have been turned and pixels not yet.
  [[nodiscard]] at::Tensor turned(const at::Tensor& stored, const Components& components) const {
    return turns_ ? components.turned(stored, *turns_) : stored;
  }
  /// Values [n, h, w, c] of windows, normalised and mirrored: float32 [n, c, h, w].
  [[nodiscard]] at::Tensor mirrored(const at::Tensor& values, const data::Normalization& map) const {
    return model_images(values, step_, seed_, first_, flips_, map);
  }
  /// Windows of stored images [n, h, w, c] or volumes [n, d, h, w, c], normalised and mirrored.
  [[nodiscard]] at::Tensor images(const at::Tensor& stored, const data::Normalization& map) const {
    return mirrored(windows(stored.dim() == 5 ? stored.flatten(1, 2) : stored), map);
  }

 private:
  at::Tensor step_ = at::zeros({}, at::kLong);
  at::Tensor pixels_ = {};  // pixels of the windows; undefined: images are whole, or hold windows already
  // For images that hold windows: the pixels shown, as places in whole ones; undefined: those of pixels_.
  at::Tensor places_ = {};
  std::optional<Turns> turns_ = {};
  int64_t seed_ = 0;
  int64_t first_ = 0;
  bool flips_ = false;
};

ModelInputs::ModelInputs(std::vector<data::Field> fields, at::Device device, bool positions)
    : fields_(std::move(fields)), device_(device) {
  for (const data::Field& field : fields_) {
    maps_.push_back(maps_of(field));
    components_.emplace_back(field, std::vector<Vector>{}, device);
    if (field.role == FieldRole::image) image_ = field.format();
  }
  share({}, positions);
}

ModelInputs::ModelInputs(const data::Dataset& dataset, bool positions, at::Device device, Windows windows,
                         const std::vector<Vector>& vectors)
    : ModelInputs(dataset.fields(), device) {
  windows_ = std::move(windows);
  if (positions && windows_.cuts()) {
    for (const int64_t side : image_.sides()) positions_.push_back(positions_along(side).to(device));
  }
  has_vectors_ = !vectors.empty();
  components_.clear();
  for (const data::Field& field : fields_) components_.emplace_back(field, vectors, device);
  std::vector<at::Tensor> shared;
  for (std::size_t f = 0; f < dataset.set_fields().size(); ++f) {
    const data::Field& field = dataset.set_fields()[f];
    const at::Tensor values = values_of_set(dataset, f);
    if (field.role == FieldRole::mask) {
      mask_ = values;
    } else if (has_vectors_) {
      with_vectors_.push_back({values.unsqueeze(0), maps_of(field), Components(field, vectors, device)});
    } else {
      shared.push_back(image_like(values.unsqueeze(0), maps_of(field), View()).squeeze(0).permute({1, 2, 0}));
    }
  }
  share(std::move(shared), positions && !windows_.cuts());
}

/// Puts positions behind `values` [h, w, c], which all images share.
void ModelInputs::share(std::vector<at::Tensor> values, bool positions) {
  if (positions) values.push_back(all_positions(image_).to(device_));
  if (!values.empty()) shared_ = at::cat(values, 2).contiguous();
}

ModelInputs::Maps ModelInputs::maps_of(const data::Field& field) const {
  Maps maps;
  if (field.variables.empty()) return maps;
  maps.common = field.common_map();
  maps.each = std::ranges::any_of(field.variables,
                                  [&](const data::Variable& v) { return v.transform != data::Transform(maps.common); });
  if (!maps.each) return maps;
  std::vector<double> scales;
  std::vector<double> offsets;
  std::vector<int64_t> logarithms;
  for (const data::Variable& variable : field.variables) {
    const data::Normalization map = variable.transform.map();
    scales.push_back(map.scale);
    offsets.push_back(map.offset);
    logarithms.push_back(variable.transform.takes_logarithm() ? 1 : 0);
    const data::Transform& transform = variable.transform;
    const int64_t number = std::ssize(scales) - 1;
    if (transform.has_points()) maps.points.emplace_back(number, PointMap(transform.from, transform.to, device_));
    if (transform.has_grid()) maps.grids.emplace_back(number, GridMap(*transform.grid, device_));
  }
  maps.scale = at::tensor(scales, at::kDouble).to(device_, at::kFloat);
  maps.offset = at::tensor(offsets, at::kDouble).to(device_, at::kFloat);
  if (std::ranges::count(logarithms, 1) > 0) maps.logarithm = at::tensor(logarithms, at::kLong).to(device_, at::kBool);
  return maps;
}

at::Tensor ModelInputs::values_of_set(const data::Dataset& dataset, std::size_t field) const {
  const data::Field& f = dataset.set_fields()[field];
  const std::span<const std::byte> values = dataset.set_values(field);
  // from_blob takes a void*; the bytes are only read.
  return at::from_blob(const_cast<std::byte*>(values.data()), f.shape, device::scalar_type(f.dtype))  // NOLINT
      .clone()
      .to(device_);
}

/// Stored values [n, h, w, c] as float32 [n, c, h, w], channels-last in memory.
at::Tensor ModelInputs::image_like(const at::Tensor& stored, const Maps& maps, const View& view) const {
  at::Tensor values = view.images(stored, maps.common);
  if (!maps.each) return values;
  const auto of_channels = [](const at::Tensor& numbers) { return numbers.view({1, -1, 1, 1}); };
  if (maps.logarithm.defined()) values = at::where(of_channels(maps.logarithm), at::log1p(values), values);
  for (const auto& [variable, map] : maps.points) values.select(1, variable).copy_(map(values.select(1, variable)));
  for (const auto& [variable, map] : maps.grids) {
    const at::Tensor of_variable = values.select(1, variable);
    of_variable.copy_(GridMap::seen(of_variable, view.placed(map.points(), values.size(0))));
  }
  return values * of_channels(maps.scale) + of_channels(maps.offset);
}

/// A coarser condition is upsampled before it is turned; windows of it as they are cut out of the whole one.
at::Tensor ModelInputs::condition_channels(const StoredBatch& batch, const at::Tensor& stored, std::size_t field,
                                           const View& view) const {
  const Maps& maps = maps_[field];
  if (fields_[field].format().sides() == image_.sides()) return image_like(stored, maps, view);
  if (windows_.cuts()) {
    const data::ImageWindows windows = windows_.to_read();
    const std::vector<data::CoarseAxis> axes = windows.axes_of(fields_[field]);
    const std::vector<at::Tensor> at_windows = windows_.coordinates(batch.step_on_device, batch.positions);
    const View parts = batch.windows ? View::of_parts(places_read(axes, windows.sides, at_windows)) : View();
    const at::Tensor coarse = image_like(stored, maps, parts).permute({0, 2, 3, 1});
    const at::Tensor fine = upsampled_windows(coarse, axes, windows.sides, batch.windows, at_windows);
    return view.of_windows(*this).images(fine, {});
  }
  at::Tensor condition = image_like(stored, maps, view.moves_pixels() ? View() : view);
  if (image_.depth == 0) {
    condition = at::upsample_bilinear2d(condition, {image_.height, image_.width}, /*align_corners=*/false);
  } else {
    const at::Tensor volume = condition.unflatten(2, {image_.depth * condition.size(3) / image_.width, -1});
    condition = at::upsample_trilinear3d(volume, {image_.depth, image_.height, image_.width}, /*align_corners=*/false)
                    .flatten(2, 3)
                    .contiguous(at::MemoryFormat::ChannelsLast);
  }
  return view.moves_pixels() ? view.images(condition.permute({0, 2, 3, 1}), {}) : condition;
}

/// `view` is that of whole images.
at::Tensor ModelInputs::beside(const StoredBatch& batch, const at::Tensor& condition, const View& view) const {
  const int64_t n = batch.positions.size();
  std::vector<at::Tensor> channels;
  if (condition.defined()) channels.push_back(condition);
  for (const Shared& values : with_vectors_) {
    std::vector<int64_t> each = values.stored.sizes().vec();
    each.front() = n;
    channels.push_back(image_like(view.turned(values.stored.expand(each), values.components), values.maps, view));
  }
  if (shared_.defined()) {
    channels.push_back(view.placed(shared_.unsqueeze(0), n).expand({n, -1, -1, -1}));
  }
  if (!positions_.empty()) {
    const at::Tensor at_windows = positions_at(positions_, windows_.coordinates(batch.step_on_device, batch.positions));
    channels.push_back(view.of_windows(*this).images(at_windows, {}));
  }
  if (channels.empty()) return {};
  if (channels.size() == 1) return channels.front();
  return at::cat(channels, 1).contiguous(at::MemoryFormat::ChannelsLast);
}

/// `masks` are [n, h, w], or [n, d, h, w] of volumes; one for all images is [1, h, w].
at::Tensor ModelInputs::valid(const at::Tensor& masks, const View& view, int64_t n) {
  const at::Tensor values = masks.unsqueeze(-1);
  const at::Tensor seen = view.windows(values.dim() == 5 ? values.flatten(1, 2) : values);
  return view.mirrored(seen.to(at::kFloat).expand({n, -1, -1, -1}).contiguous(), {}).gt(0.5);
}

ModelBatch ModelInputs::batch(const StoredBatch& stored, const std::optional<Augmentation>& augmentation) const {
  ModelBatch given{.step = stored.step, .positions = stored.positions, .step_on_device = stored.step_on_device};
  const int64_t n = stored.positions.size();
  const View whole(stored, augmentation, *this);
  const View view = stored.windows ? whole.of_windows(*this) : whole;
  at::Tensor condition;
  if (mask_.defined()) given.valid = valid(mask_.unsqueeze(0), whole, n);
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const at::Tensor values = view.turned(stored.values.at(f), components_[f]);
    switch (fields_[f].role) {
      case FieldRole::image:
        given.x0 = image_like(values, maps_[f], view);
        break;
      case FieldRole::labels:
        given.conditions.class_labels = values;
        break;
      case FieldRole::condition:
        condition = condition_channels(stored, values, f, view);
        break;
      case FieldRole::parameters:
        given.conditions.parameters = maps_[f].each ? values * maps_[f].scale + maps_[f].offset
                                                    : values * maps_[f].common.scale + maps_[f].common.offset;
        break;
      case FieldRole::mask:
        given.valid = valid(values, view, n);
        break;
      case FieldRole::static_values:
        break;  // these belong to the set, not to batches
    }
  }
  if (augmentation && augmentation->condition_dropout > 0.0) {
    const at::Tensor kept = kept_conditions(stored, *augmentation);
    if (condition.defined())
      condition = at::where(kept.view({n, 1, 1, 1}), condition, at::zeros({}, condition.options()));
    if (given.conditions.parameters.defined()) given.conditions.parameters_kept = kept;
  }
  given.beside = beside(stored, condition, whole);
  if (given.valid.defined()) {
    given.x0 = at::where(given.valid, given.x0, at::zeros({}, given.x0.options()));
  }
  return given;
}

at::Tensor model_input(const at::Tensor& noisy, const at::Tensor& channels_beside) {
  if (!channels_beside.defined()) return noisy;
  return at::cat({noisy, channels_beside.to(noisy.scalar_type())}, 1).contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace ddpm::denoise
