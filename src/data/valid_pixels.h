// Whether the masks of a set leave anything to learn from.
#pragma once

#include "comm/communicator.h"
#include "data/dataset.h"

namespace ddpm::data {

/// Throws DatasetError's code on all ranks where the masks of a set are 0 at every pixel of every image: its loss would
/// be 0. Ranks read masks until one of them has found a valid pixel, usually in the first band of the first image; only
/// masks without any are read whole. A set that records statistics has some, and nothing is read. Collective.
void expect_valid_pixels(comm::Communicator& comm, const Dataset& dataset);

}  // namespace ddpm::data
