// The transforms of a set's fields, as a run that resumes has recorded them.
#pragma once

#include <string>
#include <vector>

#include "data/field.h"
#include "run/runtime.h"

namespace ddpm::denoise {

/// Returns the fields, with their transforms, of the newest checkpoint in `run` that can be read, so that a run that is
/// resumed need not compute them again. Returns none for a new run, and when that checkpoint was trained on another set
/// than the one with this `content_hash`, or recorded no fields. Collective.
std::vector<data::Field> recorded_fields(const base::Path& run, const std::string& content_hash,
                                         const run::Runtime& runtime);

}  // namespace ddpm::denoise
