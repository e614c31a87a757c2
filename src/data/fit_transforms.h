// The transforms that `data create` records: which map each variable is to have, and its numbers from the values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"

namespace ddpm::data {

/// What is asked for, by the words of --transform.
enum class TransformKind : uint8_t {
  none,              ///< the values are what the model sees
  standardize,       ///< to mean 0 and deviation 1
  minmax,            ///< to [-1, 1]
  log1p,             ///< ln(1 + x), to mean 0 and deviation 1; of x > -1
  quantile,          ///< to the normal distribution, by quantiles
  quantile_uniform,  ///< to equally many values everywhere in [-1, 1], by quantiles
  grid               ///< to mean 0 and deviation 1 at each point of images and conditions by itself
};
constexpr auto names_of(TransformKind /*type*/) {
  return std::to_array<std::string_view>(
      {"none", "standardize", "minmax", "log1p", "quantile", "quantile-uniform", "grid"});
}

/// For each variable of each field, in their order.
using TransformKinds = std::vector<std::vector<TransformKind>>;

/// Reads "standardize" (of all variables), or "t2m=standardize, condition/sst=minmax"; variables that are not named are
/// left as they are. A name without a field stands for the variable of that name in every field. Throws ConfigError for
/// what no field has, for variables that are mapped otherwise: uint8, and parameters, which training standardises, and
/// for grids of static values or of too many points.
TransformKinds parse_transforms(const std::string& text, const std::vector<Field>& fields);

/// Whether there is anything to fit.
bool wants_fit(const TransformKinds& kinds);

/// The fields of `dataset` with the transforms that follow from its values: those of valid pixels of images, all others
/// whole. What holds one value only becomes 0, as do points of a grid that do, or have no valid value. Quantiles are
/// those of up to 2^20 values of a variable at evenly spaced places of evenly spaced images, as NumPy's `quantile`
/// defines them. Collective: the numbers are the same, bit for bit, on every rank and for any number of ranks. Throws
/// DatasetError's code on all ranks for values that cannot be mapped. `kinds` are in the order of fields(), then
/// set_fields().
std::vector<Field> fit_transforms(comm::Communicator& comm, const Dataset& dataset, const TransformKinds& kinds);

}  // namespace ddpm::data
