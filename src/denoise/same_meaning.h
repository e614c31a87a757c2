// Whether the numbers of a set mean what those of the training set do: the variables of its fields, and its classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace ddpm::denoise {

/// A set that is held against the training set, and what messages call both.
struct HeldAgainst {
  const data::Dataset& set;
  std::string asked;    ///< what names the set: "data.validation"
  std::string trained;  ///< the training set
};

/// What of a field's variables has to be the same.
enum class VariableRule : uint8_t {
  names,       ///< names and units: the transforms are replaced
  transforms,  ///< transforms: the record of the model has no names
  all,
};

/// Refuses a field of the set, of the shape of `trained`, whose variables are others than those that the model was
/// trained on, or stand in another order. A bare file records none, and takes them from the training set. Throws
/// DatasetError.
void expect_same_variables(const HeldAgainst& sets, const data::Field& seen, const data::Field& trained,
                           VariableRule rule);

/// Refuses a set whose classes have other names than those that the model was trained on, as far as both are known:
/// numbers of classes follow the names' order, so that a set which lacks a class numbers the later ones differently.
/// Throws DatasetError.
void expect_same_classes(const HeldAgainst& sets, const std::vector<std::string>& trained);

}  // namespace ddpm::denoise
