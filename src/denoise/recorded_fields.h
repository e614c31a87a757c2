// The transforms of a set's fields, as a run that resumes has recorded them.
#pragma once

#include <string>
#include <vector>

#include "data/format.h"
#include "run/runtime.h"

namespace ddpm::denoise {

/// Returns the fields, with their transforms, of the newest checkpoint in `run` that can be read, so that a run that is
/// resumed need not compute them again. Returns none for a new run, and when that checkpoint was trained on another set
/// than the one with this `content_hash`, or recorded no fields. Collective.
std::vector<data::Field> recorded_fields(const base::Path& run, const std::string& content_hash,
                                         const run::Runtime& runtime);

/// Returns the fields of `info` with the transforms that the newest checkpoint in `run` has recorded, or else the one
/// that `resume` names, for a run that goes on with other images. Returns none without such a checkpoint. Throws
/// OutputError if the images were of other fields. Collective.
std::vector<data::Field> fields_of_others(const base::Path& run, const std::string& resume,
                                          const data::DatasetInfo& info, const run::Runtime& runtime);

}  // namespace ddpm::denoise
