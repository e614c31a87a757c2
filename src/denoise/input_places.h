// Where the input channels of a model stand in one that goes on with its weights and may be given more.
//
// A channel is known by its role and the name of its variable. Channels of a role none of whose names is known are
// taken in their order, if there are as many of them. Parameters and classes have their places by name likewise.
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

/// 0, 1, … up to `count`.
std::vector<int64_t> same_places(int64_t count);

/// Throws OutputError, which begins with `origin`, where the record `before` does not tell of `channels` in all, and
/// for a channel that `now` does not have. Both are of images of so many channels, which no model has more or fewer of.
InputPlaces place_inputs(const ImageRecord& before, const ImageRecord& now, int64_t image_channels, int64_t channels,
                         const std::string& origin);

/// Where each of a model's `count` parameters stands among as many of the new one. Throws as place_inputs() does for
/// one that `now` does not have.
InputPlaces place_parameters(const ImageRecord& before, const ImageRecord& now, int64_t count,
                             const std::string& origin);

/// The rows of the table of classes: those that the model had, and those that it has now.
struct ClassRows {
  int64_t before = 0;
  int64_t now = 0;
  bool null_class = false;  ///< the last row of the model before is not a class; it stays the last one
};
/// Where each row stands in the new table. A class without a name, or of a name that the set does not have, gets a row
/// behind those of the set's classes; throws OutputError where there is none left. Where classes of the model or of the
/// set have no names, rows stay where they are.
InputPlaces place_class_rows(const std::vector<std::string>& before, const std::vector<std::string>& now,
                             const ClassRows& rows, const std::string& origin);

/// The names of variables that both have, with other transforms: the same values are others to the model.
std::vector<std::string> changed_transforms(const ImageRecord& before, const ImageRecord& now, int64_t image_channels);

}  // namespace ddpm::denoise
