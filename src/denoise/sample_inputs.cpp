#include "denoise/sample_inputs.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/named.h"
#include "base/pulse.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "data/dataset.h"
#include "denoise/drawn_size.h"
#include "denoise/given_set.h"
#include "denoise/model_fit.h"
#include "denoise/model_inputs.h"
#include "denoise/null_class.h"
#include "denoise/sample_mask.h"

namespace ddpm::denoise {
namespace {

using data::FieldRole;

void check_class_label(const nn::UNet2DConfig& model, const SampleInputOptions& options, bool labelled) {
  if (model.class_embed_type == nn::ClassEmbedding::identity) {
    throw base::OutputError(
        "the model's class_embed_type is \"identity\", which takes ready-made embeddings; wanted: one "
        "that takes labels");
  }
  const std::optional<int64_t>& label = options.class_label;
  const bool conditional = nn::is_class_conditional(model);
  if (label && !conditional) throw base::ConfigError("--class-label {}: the model has no class embedding", *label);
  if (options.all_classes && !has_class_table(model)) {
    throw base::ConfigError("--class-label all: the model has no class table; wanted: one with num_class_embeds");
  }
  if (!label && !options.all_classes && conditional && !labelled) {
    throw base::ConfigError("--class-label is missing: the model is conditioned on {}",
                            model.num_class_embeds ? base::counted(*model.num_class_embeds, "class") : "a label");
  }
  if (label && *label < 0) throw base::ConfigError("--class-label {}: a class from 0 on is wanted", *label);
  if (label && model.num_class_embeds && *label >= *model.num_class_embeds) {
    throw base::ConfigError("--class-label {}: a class from 0 to {} is wanted", *label, *model.num_class_embeds - 1);
  }
}

/// Whether each sample's class is that of the dataset.
bool wants_labels(const LoadedModel& model, const SampleInputOptions& options) {
  return nn::is_class_conditional(model.unet->config()) && !options.class_label && !options.all_classes;
}

/// SHA-256 of these conditions as they are stored, and of their masks where these count. So files without digests are
/// known by what they hold: their times change when they are copied.
std::string digest_of_conditions(const data::Dataset& dataset, layout::Range conditions, bool masks) {
  constexpr std::size_t kBytesAtOnce = std::size_t{64} << 20U;
  base::Sha256 digest;
  for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
    const data::Field& field = dataset.fields()[f];
    if (field.role != FieldRole::condition && !(masks && field.role == FieldRole::mask)) continue;
    const auto at_once = static_cast<int64_t>(std::max<std::size_t>(1, kBytesAtOnce / field.bytes()));
    for (int64_t first = conditions.begin; first < conditions.end; first += at_once) {
      const int64_t n = std::min(at_once, conditions.end - first);
      std::vector<std::byte> values(static_cast<std::size_t>(n) * field.bytes());
      dataset.read_unconfirmed(f, first, n, values);
      digest.update(values);
      base::pulse();
    }
  }
  dataset.expect_unchanged();
  return digest.hex();
}

}  // namespace

struct SampleInputs::State {
  const LoadedModel& model;
  SampleInputOptions options;
  std::optional<data::Dataset> dataset;
  std::optional<ModelInputs> inputs;  // set where the model is given more than noisy images and a class
  at::Device device;
  at::Tensor valid;       // bool [1, 1, H, W], of the mask that the model remembers; undefined: none of images drawn
  at::Tensor parameters;  // what all samples are given, as the model takes it; undefined: nothing, or a dataset's

  [[nodiscard]] layout::Range conditions_of(int64_t first, int64_t n) const {
    return {first / options.members, (first + n - 1) / options.members + 1};
  }
  [[nodiscard]] bool gives_conditions() const {
    return field_of(model.image.fields, FieldRole::condition) != nullptr || model.unet->config().num_parameters;
  }
  /// Whether the last class stands for none, and images of it were left without their class.
  [[nodiscard]] bool drops_class() const {
    const nn::UNet2DConfig& unet = model.unet->config();
    const bool all_named = unet.num_class_embeds && std::ssize(model.image.class_names) == *unet.num_class_embeds;
    return has_class_table(unet) && !all_named && model.class_dropout != 0.0;
  }
  [[nodiscard]] bool drops_conditions() const { return gives_conditions() && model.condition_dropout != 0.0; }

  /// The conditions of samples as they are stored, or in place of them an image that says nothing; empty where the
  /// model is given neither.
  [[nodiscard]] StoredBatch read(int64_t first, int64_t n) const {
    if (!inputs) return {};
    const auto wanted = [masks = takes_masks()](const data::Field& field) {
      return field.role == FieldRole::condition || (masks && field.role == FieldRole::mask);
    };
    if (dataset) return stored_batch(read_range(*dataset, conditions_of(first, n), wanted), dataset->fields(), device);
    const data::Field field = image_field();
    data::MicroBatch one{.positions = {0, 1}, .indices = {0}, .values = {std::vector<std::byte>(field.bytes())}};
    return stored_batch(std::move(one), std::span(&field, 1), device);
  }

  /// What each condition that was read gives, or the one thing that all samples are given.
  [[nodiscard]] ModelBatch given(const StoredBatch& stored, bool dropped) const {
    const std::optional<Augmentation> augmentation =
        dropped ? std::optional(Augmentation{.condition_dropout = 1.0}) : std::nullopt;
    ModelBatch batch = inputs->batch(stored, augmentation);
    if (dataset) return batch;
    batch.conditions.parameters = parameters;
    if (dropped && parameters.defined()) {
      batch.conditions.parameters_kept = at::zeros({1}, at::TensorOptions(at::kBool).device(device));
    }
    return batch;
  }

  [[nodiscard]] data::Field image_field() const {
    const data::ImageFormat format = model.image.format(model.unet->config().out_channels, base::DType::f32);
    return data::make_field(FieldRole::image, data::kImagesPath, format.shape(), format.dtype, false);
  }

  [[nodiscard]] at::Tensor labels(int64_t first, int64_t n, bool dropped) const {
    const auto on_device = at::TensorOptions(at::kLong).device(device);
    if (dropped && drops_class()) return at::full({n}, null_class(model.unet->config()), on_device);
    if (!nn::is_class_conditional(model.unet->config())) return {};
    std::vector<int64_t> labels;
    for (int64_t i = first; i < first + n; ++i) labels.push_back(label(i).value());
    return at::tensor(labels, at::kLong).to(device);
  }

  /// The classes that may be drawn: without the null class, where training is known to have left out classes, or
  /// guidance takes the last class for it.
  [[nodiscard]] int64_t classes() const {
    const bool has_null = model.class_dropout.value_or(0.0) > 0.0 || (options.guides_itself && drops_class());
    const int64_t known = *model.unet->config().num_class_embeds - (has_null ? 1 : 0);
    const auto named = std::ssize(model.image.class_names);
    return named > 0 ? std::min(named, known) : known;
  }

  /// The regression whose answers are added was trained without a null class.
  void expect_known_to_mean() const {
    if (!model.mean || !has_class_table(model.mean->unet->config())) return;
    const int64_t known = *model.mean->unet->config().num_class_embeds;
    const int64_t greatest_asked = options.all_classes ? classes() - 1 : options.class_label.value_or(0);
    if (greatest_asked >= known) {
      throw base::ConfigError("--class-label {}: the model's regression knows classes 0 to {}; wanted: one of these",
                              options.all_classes ? "all" : std::to_string(greatest_asked), known - 1);
    }
    if (!wants_labels(model, options) || !dataset || dataset->labels().empty()) return;
    const int64_t greatest = *std::ranges::max_element(dataset->labels());
    if (greatest < known) return;
    throw base::DatasetError("{}: labels reach up to {}; the model's regression knows classes 0 to {}",
                             dataset->path().string(), greatest, known - 1);
  }

  [[nodiscard]] std::optional<int64_t> label(int64_t sample) const {
    const nn::UNet2DConfig& unet = model.unet->config();
    if (options.class_label) return options.class_label;
    if (options.all_classes) return sample / options.members % classes();
    if (!nn::is_class_conditional(unet)) return std::nullopt;
    return dataset->labels()[static_cast<std::size_t>(sample / options.members)];
  }

  /// What samples are given of what was read for them.
  [[nodiscard]] Given of(int64_t first, int64_t n, const StoredBatch& stored, bool dropped) const {
    Given given;
    if (inputs) {
      const layout::Range range = conditions_of(first, n);
      const ModelBatch batch = this->given(stored, dropped && drops_conditions());
      std::vector<int64_t> places;  // where each sample's condition lies in the batch
      for (int64_t i = first; i < first + n; ++i) places.push_back(dataset ? i / options.members - range.begin : 0);
      const at::Tensor index = at::tensor(places, at::kLong).to(device);
      const auto each = [&](const at::Tensor& values) {
        return values.defined() ? values.index_select(0, index) : values;
      };
      given.beside = each(batch.beside);
      given.conditions.parameters = each(batch.conditions.parameters);
      given.conditions.parameters_kept = each(batch.conditions.parameters_kept);
      if (takes_masks()) given.valid = each(batch.valid);
    }
    if (valid.defined()) given.valid = valid.expand({n, -1, -1, -1});
    given.conditions.class_labels = labels(first, n, dropped);
    return given;
  }

  /// Parameters are standardised as those of the training set were.
  void set_parameters() {
    const int64_t wanted = model.unet->config().num_parameters.value_or(0);
    if (std::ssize(options.parameters) != wanted) {
      throw base::ConfigError("--parameters {}: {} given, {} wanted", fmt::join(options.parameters, ","),
                              options.parameters.size(), wanted);
    }
    const data::Field* field = field_of(model.image.fields, FieldRole::parameters);
    std::vector<double> values = options.parameters;
    for (std::size_t i = 0; field != nullptr && i < values.size(); ++i) {
      const data::Normalization map = field->variables.at(i).transform.map();
      values[i] = values[i] * map.scale + map.offset;
    }
    parameters = at::tensor(values, at::kDouble).to(device, at::kFloat).unsqueeze(0);
  }

  /// Whether samples have the masks of the set that is given.
  [[nodiscard]] bool takes_masks() const { return gives_masks(model.image, dataset ? &*dataset : nullptr); }

  void expect_given() const {
    if (dataset) return;
    for (const FieldRole role : {FieldRole::condition, FieldRole::static_values}) {
      if (field_of(model.image.fields, role) == nullptr) continue;
      throw base::ConfigError("--condition is missing: the model is given a field of role {}", base::name_of(role));
    }
    const auto& numbers = model.unet->config().num_parameters;
    if (numbers && !parameters.defined()) {
      throw base::ConfigError("--parameters or --condition is missing: the model is given {} with each image",
                              base::counted(*numbers, "number"));
    }
  }
};

SampleInputs SampleInputs::open(const LoadedModel& model, const SampleInputOptions& options,
                                const run::Runtime& runtime, at::Device device) {
  comm::Communicator& world = runtime.session.world();
  std::optional<data::Dataset> dataset;
  if (!options.dataset.empty()) {
    const bool folder = comm::ask_root(world, [&] { return base::kind_of(options.dataset) == base::FileKind::folder; });
    data::DatasetOptions arrays = reading_of_given(model, wants_labels(model, options));
    if (folder && arrays.labels.empty()) {
      arrays = {.labels = ""};
    } else if (folder) {
      arrays = {};  // it lists its fields
    }
    dataset.emplace(data::Dataset::open(world, options.dataset, arrays));
  }
  SampleInputs inputs = of_set(model, options, std::move(dataset), world, device);
  const std::string warning = positions_warning(model);
  if (!warning.empty()) runtime.log.warn("{}", warning);
  const std::optional<data::Dataset>& given = inputs.state_->dataset;
  const std::string of_masks = mask_warning(model.image, given ? &*given : nullptr);
  if (!of_masks.empty()) runtime.log.warn("{}", of_masks);
  return inputs;
}

SampleInputs SampleInputs::of_set(const LoadedModel& model, const SampleInputOptions& options,
                                  std::optional<data::Dataset> dataset, comm::Communicator& world, at::Device device) {
  const nn::UNet2DConfig& unet = model.unet->config();
  auto state = std::make_unique<State>(State{model, options, std::move(dataset), {}, device, {}, {}});
  comm::agree(world, [&] {
    if (!options.parameters.empty()) state->set_parameters();
    state->valid = mask_of_model(model.image, device);
    check_class_label(unet, options, state->dataset && !state->dataset->labels().empty());
    expect_record_of(unet, model.image);
    expect_positions_of_whole_images(model);
    state->expect_given();
    state->expect_known_to_mean();
    if (state->dataset) {
      expect_like_trained(*state->dataset, model, wants_labels(model, options));
      state->dataset->set_transforms(given_fields(model.image.fields));
      if (!options.parameters.empty()) {
        throw base::ConfigError("--parameters: --condition gives them already; wanted: one of the two");
      }
    }
    const bool more = unet.in_channels != unet.out_channels || unet.num_parameters || state->takes_masks();
    if (!state->dataset && more) {
      state->inputs.emplace(std::vector{state->image_field()}, device, model.image.positions);
    } else if (more) {
      state->inputs.emplace(*state->dataset, model.image.positions, device);
    } else if (state->dataset && !wants_labels(model, options)) {
      throw base::ConfigError("--condition {}: the model is given nothing beside noisy images{}", options.dataset,
                              mask_source(model.image) == MaskSource::given ? ", and this set has no masks" : "");
    }
  });
  return SampleInputs(std::move(state));
}

SampleInputs::SampleInputs(std::unique_ptr<State> state) : state_(std::move(state)) {}
SampleInputs::~SampleInputs() = default;
SampleInputs::SampleInputs(SampleInputs&&) noexcept = default;
SampleInputs& SampleInputs::operator=(SampleInputs&&) noexcept = default;

int64_t SampleInputs::samples() const {
  return state_->dataset ? state_->dataset->size() * state_->options.members : 0;
}
int64_t SampleInputs::members() const { return state_->options.members; }
std::optional<int64_t> SampleInputs::label(int64_t sample) const { return state_->label(sample); }
Given SampleInputs::of(int64_t first, int64_t n) const {
  return state_->of(first, n, state_->read(first, n), /*dropped=*/false);
}
GivenTwice SampleInputs::with_and_without(int64_t first, int64_t n) const {
  const StoredBatch stored = state_->read(first, n);
  return {state_->of(first, n, stored, /*dropped=*/false), state_->of(first, n, stored, /*dropped=*/true)};
}

void SampleInputs::expect_droppable(const std::string& option) const {
  const State& s = *state_;
  const nn::UNet2DConfig& unet = s.model.unet->config();
  if (s.drops_class() || s.drops_conditions()) {
    if (s.drops_class() && s.options.class_label == null_class(unet)) {
      throw base::ConfigError("{}: --class-label {} is the null class itself", option, *s.options.class_label);
    }
    if (s.drops_class() && s.options.all_classes && s.classes() < 1) {
      throw base::ConfigError("{}: --class-label all: the model's one class is taken for the null class", option);
    }
    if (s.drops_class() && wants_labels(s.model, s.options)) expect_no_null_class(unet, *s.dataset, option);
    return;
  }
  if (!nn::is_class_conditional(unet) && !s.gives_conditions()) {
    throw base::ConfigError(
        "{} needs something to be guided from; wanted: --class-label, whose opposite is the null class, or conditions, "
        "or --guidance-model",
        option);
  }
  if (nn::is_class_conditional(unet) && !has_class_table(unet) && !s.gives_conditions()) {
    throw base::ConfigError(
        "{}: class_embed_type = \"{}\" has no table of classes, and so none that stands for no class; "
        "wanted: --guidance-model",
        option, base::name_of(*unet.class_embed_type));
  }
  throw base::ConfigError(
      "{}: the model was trained without leaving out classes or conditions (diffusion.class_dropout = 0, "
      "diffusion.condition_dropout = 0); wanted: --guidance-model",
      option);
}

std::optional<int64_t> SampleInputs::presumed_null_class() const {
  const State& s = *state_;
  if (!s.options.guides_itself || !s.drops_class() || s.model.class_dropout) return std::nullopt;
  return null_class(s.model.unet->config());
}

std::string SampleInputs::identity(int64_t count) const {
  const State& s = *state_;
  // The null class, where there is one, is not drawn: that follows from what training has left out.
  const bool leaves_out = s.options.all_classes && s.classes() < *s.model.unet->config().num_class_embeds;
  std::string given;
  if (s.dataset) given = s.dataset->content_hash();
  if (s.dataset && !s.dataset->has_digests()) {
    given += fmt::format(" {}", digest_of_conditions(*s.dataset, s.conditions_of(0, count), s.takes_masks()));
  }
  return fmt::format("members {} parameters {} class {} all {}{} dataset {}", s.options.members,
                     fmt::join(s.options.parameters, ","), s.options.class_label.value_or(-1), s.options.all_classes,
                     leaves_out ? fmt::format(" {}", s.classes()) : "", given);
}

void SampleInputs::close(comm::Communicator& world) {
  if (state_->dataset) state_->dataset->close(world);
  state_->dataset.reset();
}

}  // namespace ddpm::denoise
