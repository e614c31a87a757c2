#include "interop/card_text.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "diffusion/config.h"
#include "interop/card_parts.h"
#include "nn/config.h"

namespace ddpm::interop {
namespace {

std::string row(std::string_view name, const std::string& value) {
  return value.empty() ? "" : fmt::format("| {} | {} |\n", name, one_line(value));
}

std::string row(std::string_view name, int64_t value) { return value == 0 ? "" : row(name, std::to_string(value)); }

/// "10: airplane, automobile, ..."; the others are in class_names.json.
std::string classes_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20;
  if (names.empty()) return "";
  std::string text = fmt::format("{}: ", names.size());
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kShown ? ", ... (see `class_names.json`)" : "");
}

std::string_view kind_of(diffusion::Formulation formulation) {
  switch (formulation) {
    case diffusion::Formulation::ddpm:
      return "A denoising diffusion model of images (DDPM)";
    case diffusion::Formulation::edm:
      return "A denoising diffusion model of images (EDM)";
    case diffusion::Formulation::flow:
      return "A flow matching model of images";
    case diffusion::Formulation::regression:
      return "A regression, whose answer is the mean image of what it is given,";
  }
  throw base::InternalError("formulation {}", static_cast<int>(formulation));
}

/// A table of the training set's channels; of many channels the first ones.
std::string statistics_text(const ModelCard& card) {
  constexpr std::size_t kShown = 16;
  const std::vector<CardStatistics>& statistics = card.statistics;
  if (statistics.empty()) return "";
  std::string text = "\n| channel, as stored | mean | deviation | least | greatest |\n|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(kShown, statistics.size()); ++i) {
    const auto& [channel, mean, deviation, min, max] = statistics[i];
    text += fmt::format("| {} | {:.6g} | {:.6g} | {:.6g} | {:.6g} |\n", one_line(channel), mean, deviation, min, max);
  }
  if (!card.counted_over.empty()) text += fmt::format("\nCounted over {}.\n", one_line(card.counted_over));
  return text + (statistics.size() > kShown ? fmt::format("\n({} channels in all.)\n", statistics.size()) : "");
}

/// The type's name, as PyTorch spells it.
std::string_view type_name(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kHalf ? "float16" : "float32";
}

std::string license_text(const CardConfig& stated) {
  // Not at the beginning of a line, where it could be a heading or the fence of a code block.
  if (!stated.license.empty()) return fmt::format("Of these weights: {}.\n", one_line(stated.license));
  return "None was stated for these weights when they were written. Before publishing them, add one here and above\n"
         "that fits the training set (`card.license`).\n";
}

}  // namespace

std::string training_text(const ModelCard& card, at::ScalarType dtype) {
  std::string text = "| | |\n|---|---|\n";
  text += row("training set", card.dataset) + row("images in it", card.dataset_images);
  text += row("its content hash", card.dataset_hash);
  text += row("its licence", card.stated.dataset_license);
  text += row("training sets before", card.earlier_datasets);
  text += row("training started from", card.stated.base_model.empty() ? card.started_from : card.stated.base_model);
  text += row("classes", classes_text(card.class_names));
  text += row("optimizer steps", card.steps) + row("images seen", card.images_seen);
  text += row("weights", card.weights.empty() ? "" : fmt::format("{}, {}", card.weights, type_name(dtype)));
  if (card.validation) {
    text += row("validation loss", fmt::format("{:.6g} on {}", card.validation->loss, card.validation->dataset));
  }
  return text + row("hardware", card.hardware) + row("software", card.versions) + statistics_text(card);
}

std::string head_text(const ModelCard& card, std::string_view kind) {
  std::string text = fmt::format("# {}\n\n{}, {}{}{}.\n\n", title_of(card), kind, kCardSign,
                                 card.program_version.empty() ? "" : " ", card.program_version);
  if (!card.stated.authors.empty()) {
    text += fmt::format("By {}.\n\n", one_line(fmt::format("{}", fmt::join(card.stated.authors, ", "))));
  }
  return text;
}

std::string end_text(const ModelCard& card, const base::Json& normalization, diffusion::Formulation formulation) {
  std::string text = fmt::format("\n```json\n{}\n```\n\n## Not for\n\n{}\n## Licence\n\n{}",
                                 base::with_short_texts(normalization).dump(2), card_limits(card, formulation),
                                 license_text(card.stated));
  if (!card.config_toml.empty()) text += fmt::format("\n## Configuration\n\n```toml\n{}\n```\n", card.config_toml);
  return text;
}

std::string one_line(std::string text) {
  const auto unfit = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '|' || c == '\x7f'; };
  std::ranges::replace_if(text, unfit, ' ');
  return text;
}

std::string title_of(const ModelCard& card) { return one_line(card.title.empty() ? "DDPM" : card.title); }

std::string model_card_text(const WrittenModel& model) {
  const ModelCard& card = model.card;
  std::string text = card_metadata(card, {.library = nn::fits_diffusers(model.unet) ? "diffusers" : "ddpm",
                                          .task = task_of(model.unet),
                                          .tags = {"diffusers", "ddpm"},
                                          .relation = "finetune"});
  text += head_text(card, kind_of(model.scheduler.formulation)) + training_text(card, model.dtype);
  text += fmt::format("\n## Use\n\n{}", card_use(model));
  text += "\nThe model's values relate to stored image values as `normalization.json` says:\n";
  return text + end_text(card, model.normalization, model.scheduler.formulation);
}

}  // namespace ddpm::interop
