#include "train/card.h"

#include <fmt/format.h>

#include "base/version.h"
#include "checkpoint/folders.h"
#include "checkpoint/run_files.h"
#include "config/resolve.h"
#include "denoise/image_record.h"
#include "interop/model_files.h"

namespace ddpm::train {
namespace {

/// The name that a path has where it lies; of "data/set/" that is "set".
std::string last_part(const base::Path& path) {
  return (std::filesystem::absolute(path) / "").lexically_normal().parent_path().filename().string();
}

/// Whether the name of a folder says what it holds, not whose it is.
bool is_usual_name(const std::string& name) {
  return name == interop::kUNetFolder || name == checkpoint::kModelFolder || name == checkpoint::kBestModelFolder ||
         name == checkpoint::kCheckpointsName || name.starts_with(checkpoint::kStepPrefix);
}

/// The name of a model that training starts from: "celebahq256", "flowers/model".
std::string model_name(const base::Path& path) {
  base::Path place = (std::filesystem::absolute(path) / "").lexically_normal().parent_path();
  std::string name = place.filename().string();
  while (is_usual_name(place.filename().string())) {
    place = place.parent_path();
    name = fmt::format("{}/{}", place.filename().string(), name);
  }
  return name;
}

std::string weights_text(const optim::EmaConfig& ema, const run::WeightChoice& weights) {
  const auto of_length = [](double length) { return fmt::format("average of relative length {}", length); };
  if (weights.relative_length) return of_length(*weights.relative_length);
  if (!weights.ema) return weights.text();
  const std::size_t first = ema.max_decay.size();
  return *weights.ema < first ? fmt::format("EMA (max_decay {})", ema.max_decay[*weights.ema])
                              : of_length(ema.relative_lengths.at(*weights.ema - first));
}

/// Validation measures the weights that RUN/model gets: the first average where there is one.
bool are_validated(const run::WeightChoice& weights, const optim::EmaConfig& ema) {
  if (weights.relative_length) return false;
  return ema.count() > 0 ? weights.ema == std::optional<std::size_t>(0) : !weights.ema;
}

}  // namespace

CardFacts read_card_facts(const base::Json& state, int64_t step, const std::string& origin) {
  return {.history = read_data_history(state, origin),
          .progress = engine::read_progress(state, step, origin),
          .validated = read_validation_record(state, origin),
          .training = read_training_facts(state, origin),
          .class_names = denoise::read_image_record(state, origin).class_names};
}

interop::ModelCard card_of(const Configuration& configuration, const base::Path& run, const CardFacts& facts,
                           const run::WeightChoice& weights) {
  const Config& config = configuration.values();
  interop::ModelCard card;
  card.stated = config.card;
  card.title = config.card.title.empty() ? last_part(run) : config.card.title;
  if (!facts.history.empty()) {
    const DataPeriod& newest = facts.history.back();
    card.dataset = newest.name;
    card.dataset_hash = newest.content_hash;
    card.dataset_images = newest.images;
  }
  if (config.model_source.pretrained) card.started_from = model_name(*config.model_source.pretrained);
  card.earlier_datasets = text_of_earlier(facts.history);
  card.statistics = facts.training.statistics;
  card.counted_over = facts.training.counted_over;
  card.class_names = facts.class_names;
  card.steps = facts.progress.step;
  card.images_seen = facts.progress.images_seen;
  const auto loss = facts.validated.loss_at(facts.progress.step);
  if (loss && config.data.validation && are_validated(weights, config.ema)) {
    card.validation = interop::CardValidation{*loss, last_part(*config.data.validation)};
  }
  card.weights = weights_text(config.ema, weights);
  card.hardware = facts.training.hardware;
  card.versions = facts.training.software;
  card.config_toml = config::to_toml(configuration.schema(), false);
  card.program_version = facts.training.program.empty() ? base::kVersion : facts.training.program;
  return card;
}

}  // namespace ddpm::train
