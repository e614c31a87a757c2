// The set that samples are drawn given: which of its arrays are read, and whether a model can be given them.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "denoise/loaded_model.h"

namespace ddpm::denoise {

/// The fields of the training set that a set gives to samples: conditions, static values and parameters. Its images are
/// not looked at.
std::vector<data::Field> given_fields(const std::vector<data::Field>& trained);

/// Which arrays or variables of a file have the roles that the model takes: those of the training set. A file may lack
/// masks (sample_mask.h). `labelled`: samples have the classes of the set.
data::DatasetOptions reading_of_given(const LoadedModel& model, bool labelled);

/// Refuses a set that lacks what the model takes, or gives it in another shape, variables of other names or units, or,
/// where `labelled`, other classes. A set without names contradicts none. Throws DatasetError; ConfigError for a size
/// of images that the fields cannot lie beside.
void expect_like_trained(const data::Dataset& dataset, const LoadedModel& model, bool labelled);

}  // namespace ddpm::denoise
