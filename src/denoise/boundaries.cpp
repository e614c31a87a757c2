#include "denoise/boundaries.h"

#include <array>

#include "base/counted.h"
#include "denoise/patch.h"

namespace ddpm::denoise {

void warn_of_boundaries(const nn::UNet2DConfig& model, const data::Dataset& dataset, const base::Logger& log) {
  constexpr std::array<const char*, 3> kNames = {"depth", "height", "width"};
  const std::vector<bool>& fields = dataset.periodic_axes();
  const std::vector<bool> padded = periodic_axes(model, fields.size());
  for (std::size_t axis = 0; axis < fields.size(); ++axis) {
    if (fields[axis] == padded[axis]) continue;
    log.warn(
        "{}: its boundary conditions are {} along the {} of images, model.padding there is \"{}\"; \"{}\" continues "
        "them as they are",
        dataset.name(), fields[axis] ? "periodic" : "not periodic", kNames.at(kNames.size() - fields.size() + axis),
        padded[axis] ? "periodic" : "zeros", fields[axis] ? "periodic" : "zeros");
  }
}

void warn_of_missing_times(const data::Dataset& dataset, const base::Logger& log) {
  if (dataset.pairs_left_out() == 0) return;
  log.warn("{}: {} left out, because times are missing between the two", dataset.name(),
           base::counted(dataset.pairs_left_out(), "pair"));
}

}  // namespace ddpm::denoise
