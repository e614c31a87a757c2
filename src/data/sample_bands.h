// What the values of a set with large images are like, from a little of them.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"

namespace ddpm::data {

/// The statistics of bands of rows that lie evenly over the images of the set, about 64 MiB in all, where masks say
/// that pixels are valid; empty when they do so of none. One rank reads them, and all get the same. Collective. Throws
/// ImageError's code for values that are not finite.
std::vector<ChannelStatistics> statistics_of_bands(comm::Communicator& comm, const Dataset& dataset);

}  // namespace ddpm::data
