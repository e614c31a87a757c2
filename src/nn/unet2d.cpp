#include "nn/unet2d.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/pulse.h"
#include "nn/time_embedding.h"
#include "nn/unet2d_units.h"
#include "nn/validate.h"

namespace ddpm::nn {
namespace {

const UNet2DConfig& validated(const UNet2DConfig& c) {
  validate(c);
  return c;
}

}  // namespace

UNet2D::UNet2D(UNet2DConfig config) : config_(std::move(config)), units_(build_units(validated(config_))) {
  if (config_.lora.rank > 0) adapt(config_.lora);
  collect_parameters();
  if (is_periodic(config_) || config_.dimensions == 3) image_ = whole_image(image_shape());
}

ImageShape UNet2D::image_shape() const {
  const ImageSize size = image_size(config_);
  const auto axes = static_cast<std::size_t>(config_.dimensions);
  return {.depth = size.depth,
          .width = size.width,
          .periodic_depth = size.depth > 0 && is_periodic_along(config_, 0),
          .periodic_height = is_periodic_along(config_, axes - 2),
          .periodic_width = is_periodic_along(config_, axes - 1)};
}

graph::Graph UNet2D::graph() const {
  graph::Graph g{.axes = config_.dimensions};
  for (int64_t axis = 0; axis < g.axes; ++axis)
    g.periodic.push_back(is_periodic_along(config_, static_cast<std::size_t>(axis)));
  graph::UnitValues state;
  state.x = g.add(graph::Input{"sample"});
  state.timesteps = g.add(graph::Input{"timestep"});
  if (is_class_conditional(config_)) state.class_labels = g.add(graph::Input{"class_labels"});
  if (config_.num_parameters) state.parameters = g.add(graph::Input{"parameters"});
  for (const auto& unit : units_) state = unit->record(std::move(state), g);
  g.output = state.x;
  return g;
}

void UNet2D::collect_parameters() {
  parameters_.clear();
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (Parameter* p : units_[u]->parameters()) {
      p->unit = static_cast<int>(u);
      parameters_.push_back(p);
    }
  }
}

void UNet2D::adapt(const LoraConfig& lora) {
  std::vector<AdaptableLayer*> layers;
  for (const auto& unit : units_) {
    layers.insert(layers.end(), unit->adaptable().begin(), unit->adaptable().end());
    for (Parameter* p : unit->parameters()) {
      if (p->role == base::ParameterRole::trained) p->role = base::ParameterRole::pretrained;
    }
  }
  for (const std::string& target : lora.targets) {
    const bool found = std::ranges::any_of(layers, [&](const AdaptableLayer* l) { return l->is_target(target); });
    if (found) continue;
    throw base::ConfigError(
        "model.lora_targets: \"{}\" means no layer of the model; wanted: \"attention\", \"convolutions\", or how a "
        "layer's name ends, such as \"{}\"",
        target, layers.back()->name());
  }
  for (AdaptableLayer* layer : layers) {
    const auto means = [&](const std::string& target) { return layer->is_target(target); };
    if (std::ranges::any_of(lora.targets, means)) layer->adapt(lora.rank, lora.scale());
  }
  for (const auto& unit : units_) unit->own_adapters();
}

std::vector<const AdaptableLayer*> UNet2D::adaptable() const {
  std::vector<const AdaptableLayer*> layers;
  for (const auto& unit : units_) layers.insert(layers.end(), unit->adaptable().begin(), unit->adaptable().end());
  return layers;
}

std::vector<const AdaptableLayer*> UNet2D::adapted() const {
  std::vector<const AdaptableLayer*> layers = adaptable();
  std::erase_if(layers, [](const AdaptableLayer* layer) { return layer->adapter() == nullptr; });
  return layers;
}

const Partition& UNet2D::image_of(const Partition& partition) const {
  if (!image_ || partition.tiles() > 1 || partition.channel_parts() > 1) return partition;
  DDPM_CHECK(config_.dimensions == 2 || !config_.sample_size.empty(), "volumes without a sample_size");
  return *image_;
}

void UNet2D::hold_channels(int64_t part, int64_t parts) {
  for (Parameter* p : parameters_) {
    base::Split& split = p->split;
    if (split.dim < 0) continue;
    if (split.units % parts != 0) {
      throw base::ConfigError(
          "parallel.tensor_size = {}: {} has {} of a norm or of attention's heads, which stay whole; wanted: a divisor "
          "of {}, see model.norm_num_groups and model.attention_head_dim (K blocks have a group for 32 channels)",
          parts, p->name, base::counted(split.units, "group"), split.units);
    }
    p->shape[static_cast<std::size_t>(split.dim)] /= parts;
    split.parts = parts;
    split.part = part;
  }
}

int64_t UNet2D::parameter_count() const {
  int64_t count = 0;
  for (const Parameter* p : parameters_) count += p->numel();
  return count;
}

std::vector<Operations> UNet2D::unit_operations(ImageSize image) const {
  std::vector<Operations> operations;
  bool trained = false;  // nothing before the first weight that is trained has a gradient
  for (const auto& unit : units_) {
    Operations own = unit->operations(image);
    trained = trained || std::ranges::any_of(unit->parameters(), [](const Parameter* parameter) {
                return parameter->role == base::ParameterRole::trained;
              });
    if (!trained) own.backward = 0.0;
    operations.push_back(own);
  }
  return operations;
}

Operations UNet2D::operations(ImageSize image) const {
  Operations sum;
  for (const Operations& own : unit_operations(image)) sum += own;
  return sum;
}

void UNet2D::prepare_for_inference() {
  if (is_periodic(config_)) return;  // what is prepared has borders of zeros
  for (const auto& unit : units_) unit->prepare_for_inference();
}

at::Tensor UNet2D::forward(const at::Tensor& x, const at::Tensor& timesteps, const Conditions& given,
                           const RandomContext& random) const {
  return forward(x, timesteps, given, random, whole_image());
}

at::Tensor UNet2D::forward(const at::Tensor& x, const at::Tensor& timesteps, const Conditions& given,
                           const RandomContext& random, const Partition& partition) const {
  UnitExecutor directly;
  return forward(x, timesteps, given, random, partition, directly);
}

at::Tensor UNet2D::forward(const at::Tensor& x, const at::Tensor& timesteps, const Conditions& given,
                           const RandomContext& random, const Partition& partition, UnitExecutor& executor) const {
  check_inputs(x, timesteps, given);
  UnitState state{.x = x, .timesteps = timesteps, .given = given};
  const ForwardContext context{random, image_of(partition)};
  for (std::size_t u = 0; u < units_.size(); ++u) {
    state = executor.run(*units_[u], u, std::move(state), context);
    base::pulse();  // a call of a large model may take minutes
  }
  return state.x;
}

void UNet2D::check_inputs(const at::Tensor& x, const at::Tensor& timesteps, const Conditions& given) const {
  DDPM_CHECK(x.dim() == 4 && x.size(1) == config_.in_channels,
             "images have {} dimensions and {} channels, wanted 4, {}", x.dim(), x.dim() > 1 ? x.size(1) : 0,
             config_.in_channels);
  const int64_t multiple = size_multiple(config_);
  DDPM_CHECK(x.size(2) % multiple == 0 && x.size(3) % multiple == 0, "{} x {} pixels, wanted multiples of {}",
             x.size(2), x.size(3), multiple);
  DDPM_CHECK(timesteps.dim() == 1 && timesteps.size(0) == x.size(0), "{} timesteps for {} images", timesteps.numel(),
             x.size(0));
  const at::Tensor& parameters = given.parameters;
  DDPM_CHECK(parameters.defined() == config_.num_parameters.has_value() &&
                 (!parameters.defined() || (parameters.dim() == 2 && parameters.size(0) == x.size(0) &&
                                            parameters.size(1) == *config_.num_parameters)),
             "{} parameter values for {} images, {} wanted for each", parameters.defined() ? parameters.numel() : 0,
             x.size(0), config_.num_parameters.value_or(0));
  const at::Tensor& class_labels = given.class_labels;
  DDPM_CHECK(class_labels.defined() == is_class_conditional(config_), "class labels {}, class embedding {}",
             class_labels.defined() ? "given" : "absent", is_class_conditional(config_) ? "present" : "absent");
  if (!class_labels.defined()) return;
  const bool vectors = config_.class_embed_type == ClassEmbedding::identity;
  DDPM_CHECK(class_labels.dim() == (vectors ? 2 : 1) && class_labels.size(0) == x.size(0) &&
                 (!vectors || class_labels.size(1) == time_embedding_dim(config_)),
             "{} class label values in {} dimensions for {} images", class_labels.numel(), class_labels.dim(),
             x.size(0));
}

at::ScalarType input_dtype(const UNet2DConfig& config, at::ScalarType dtype) {
  return config.center_input_sample ? at::kFloat : dtype;
}

}  // namespace ddpm::nn
