// What `ddpm data stats` prints.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "data/dataset.h"
#include "data/field_statistics.h"

namespace ddpm::cli {

/// One object for programs. Numbers that do not exist, such as the mean of no values, are null.
base::OrderedJson stats_json(const data::Dataset& dataset, const std::vector<data::FieldStatistics>& fields,
                             bool transformed);

/// Tables for people.
std::string stats_text(const data::Dataset& dataset, const std::vector<data::FieldStatistics>& fields,
                       bool transformed);

}  // namespace ddpm::cli
