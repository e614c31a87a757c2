// The fields of a dataset, for people.
#pragma once

#include <string>
#include <vector>

#include "data/field.h"

namespace ddpm::cli {

/// A line for each field, with its role, shape and type, and one for each of its variables that has a unit, a name of
/// its own or a transform: "    t2m [K] standardize(281, 21.3)". Plain images have none.
std::string fields_text(const std::vector<data::Field>& fields);

}  // namespace ddpm::cli
