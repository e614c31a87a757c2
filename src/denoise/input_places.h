// Where the input channels of a model stand in one that goes on with its weights and may be given more.
//
// A channel is known by its role and the name of its variable. Channels of a role none of whose names is known are
// taken in their order, if there are as many of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "denoise/image_record.h"

namespace ddpm::denoise {

struct InputPlaces {
  std::vector<int64_t> places;            ///< where each channel of the model before stands among those of the new one
  std::vector<std::string> renamed = {};  ///< what was placed by its order: "condition t2m in place of u10"
};

/// Throws OutputError, which begins with `origin`, where the record `before` does not tell of `channels` in all, and
/// for a channel that `now` does not have. Both are of images of so many channels, which no model has more or fewer of.
InputPlaces place_inputs(const ImageRecord& before, const ImageRecord& now, int64_t image_channels, int64_t channels,
                         const std::string& origin);

}  // namespace ddpm::denoise
