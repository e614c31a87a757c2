// How foreign files were composed to the images that a model learned, so that it can be given further files alike.
#pragma once

#include <string>

#include "base/json.h"
#include "data/dataset_options.h"

namespace ddpm::denoise {

/// {"variables": [...], "axes": [...], "sample_axes": [...], "condition": "...", "static": "...", "parameters": "...",
/// "lead": 0}, after the keys of [data], and where they are set "labels", "mask" and "missing", which older versions
/// did not record.
base::Json to_json(const data::DatasetOptions& reading);

/// The reverse. Throws OutputError, which begins with `place`, for another value.
data::DatasetOptions parse_file_reading(const base::Json& json, const std::string& place);

/// How the conditions for such a model are read from a file, of each of its times: the images themselves are not
/// needed, so that the condition stands for them where it has their size, as `same_size` says. Masks are read where the
/// file has them: a variable, or what is missing of the images, where these are there. Images that are ahead of their
/// conditions have no mask but one of all times.
data::DatasetOptions reading_of_conditions(const data::DatasetOptions& reading, bool same_size);

}  // namespace ddpm::denoise
