// The parts of a model card that card_text.cpp puts together.
#pragma once

#include <string>

#include "interop/written_model.h"

namespace ddpm::interop {

/// One line of text that ends no heading and no cell of a table early: control characters and | are spaces.
std::string one_line(std::string text);
/// The first heading.
std::string title_of(const ModelCard& card);
/// The metadata, with the lines of "---" around it.
std::string card_metadata(const WrittenModel& model);
/// How the folder is loaded, in Markdown.
std::string card_use(const WrittenModel& model);
/// What the model is not for: a list in Markdown.
std::string card_limits(const WrittenModel& model);

}  // namespace ddpm::interop
