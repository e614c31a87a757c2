// The transforms that training takes from the values of its set: what the model sees has mean 0 and deviation 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"
#include "data/survey.h"

namespace ddpm::data {

/// data.normalize: what becomes of the float32 values of a bare .h5 file, which records no transforms.
enum class Normalize : uint8_t { none, standardize };
constexpr auto names_of(Normalize /*type*/) { return std::to_array<std::string_view>({"none", "standardize"}); }

/// Sets the transforms of `dataset` that follow from its values. Parameters are always standardised, each by its mean
/// and deviation over all images. With `normalize`, so are the variables of float32 images, where their masks say that
/// they are valid, of conditions and of static values. What holds one value only becomes 0. The numbers are the same,
/// bit for bit, on every rank and for any number of ranks. Collective. Throws DatasetError's code on all ranks for
/// values that cannot be used, and for `normalize` with a folder, whose dataset.json records transforms. Where
/// `recorded` has fields, of a run that resumes with this set, their transforms are taken and nothing is computed.
void settle_transforms(comm::Communicator& comm, Dataset& dataset, Normalize normalize,
                       const std::vector<Field>& recorded = {});

/// The map to mean 0 and deviation 1. A deviation that float32 values of this mean have by rounding alone is none: what
/// holds one value becomes 0.
Transform standardized(const ChannelStatistics& statistics);

/// The statistics of values in memory: one image after another.
std::vector<ChannelStatistics> statistics_of(const ImageFormat& format, std::span<const std::byte> values);

/// The statistics that survey() finds. Collective. Throws DatasetError's code on all ranks where an image cannot be
/// used or no pixel is valid.
std::vector<ChannelStatistics> surveyed(comm::Communicator& comm, const Dataset& dataset, const SurveyOptions& options);

}  // namespace ddpm::data
