// What a person is told to do about a run.
#pragma once

#include "report/finding.h"
#include "report/measures.h"

namespace ddpm::report {

/// `about` is the counsel in a few words. docs/report.md says when each is given.
Finding counsel_of(const Measures& m);

}  // namespace ddpm::report
