// Whether images of the size that is drawn have the positions that a model with data.positions has learned: those in
// the whole images of its training set.
#pragma once

#include <string>

#include "denoise/loaded_model.h"

namespace ddpm::denoise {

/// Refuses images of the size of a model's windows where positions are those of larger ones, of which such an image is
/// a part that nobody names. Throws ConfigError, which says with which --size the model is drawn.
void expect_positions_of_whole_images(const LoadedModel& model);

/// A sentence where positions are others than the model has learned, or its record does not say whether they are; "" in
/// all other cases.
std::string positions_warning(const LoadedModel& model);

}  // namespace ddpm::denoise
