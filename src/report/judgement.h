// What the numbers of a run say to a person who wonders whether to stop it.
#pragma once

#include <vector>

#include "report/finding.h"
#include "report/measures.h"

namespace ddpm::report {

struct Judgement {
  Finding counsel = {};                ///< whether to stop; `about` is the counsel in a few words
  std::vector<Finding> findings = {};  ///< what it rests on, the most important first
};

Judgement judge(const Measures& measures);

}  // namespace ddpm::report
