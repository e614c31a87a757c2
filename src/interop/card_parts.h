// The parts of a model card that card_text.cpp puts together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interop/written_model.h"

namespace ddpm::interop {

/// The words of every card that say who wrote it: interop/own_export.h looks for them.
inline constexpr std::string_view kCardSign = "trained with ddpm";

/// One line of text that ends no heading and no cell of a table early: control characters and | are spaces.
std::string one_line(std::string text);
/// The first heading.
std::string title_of(const ModelCard& card);
/// What the metadata of a card says beside what ModelCard does.
struct CardMetadata {
  std::string_view library;       ///< that loads the folder
  std::string_view task;          ///< the hub's name of what the model does, or ""
  std::vector<std::string> tags;  ///< before those that the author states
  std::string_view relation;      ///< to the model that training started from: the hub's base_model_relation
};

/// The hub's name of what a model does; "": it has none, as of volumes.
std::string_view task_of(const nn::UNet2DConfig& unet);
/// The metadata, with the lines of "---" around it.
std::string card_metadata(const ModelCard& card, const CardMetadata& metadata);
/// The first heading, what stands below it in one sentence, and who made it.
std::string head_text(const ModelCard& card, std::string_view kind);
/// What the weights, which are stored as `dtype`, were trained on, and how: tables in Markdown.
std::string training_text(const ModelCard& card, at::ScalarType dtype);
/// What every card ends with: how values are stored, what the model is not for, licence and configuration.
std::string end_text(const ModelCard& card, const base::Json& normalization, diffusion::Formulation formulation);
/// The model that adapters belong to: its name on a hub, where the card states one, else where it lies.
const std::string& base_name(const WrittenAdapter& adapter);
/// How the folder is loaded, in Markdown.
std::string card_use(const WrittenModel& model);
/// What the model is not for: a list in Markdown.
std::string card_limits(const ModelCard& card, diffusion::Formulation formulation);

}  // namespace ddpm::interop
