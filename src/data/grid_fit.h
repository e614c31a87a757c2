// Mean and deviation of variables at each point of their field, for transforms that are a grid.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"

namespace ddpm::data {

/// The scales of some variables of the field of `role`, which is read in blocks and float32: over all images, of images
/// over those where the mask says that the point is valid. A deviation is 0 where float32 values of the mean have it by
/// rounding alone, and so are both numbers where no value is valid. Each rank reads a part of the images, twice for
/// every 2^22 points, and holds up to 0.2 GB of sums. They are sums of integers: the numbers are the same, bit for bit,
/// on every rank, for any number of ranks, any order of the images and any number of shards. Collective. Throws
/// DatasetError's code on all ranks where an image cannot be used or no pixel is valid.
std::vector<PointScales> fit_grids(comm::Communicator& comm, const Dataset& dataset, FieldRole role,
                                   const std::vector<std::size_t>& variables);

}  // namespace ddpm::data
